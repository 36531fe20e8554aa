//===- RankCalls.h - calls of a model as messages between processes -------===//
#pragma once

#include "runtime/generation/LanguageModel.h"
#include "runtime/generation/scoring/Perplexity.h"
#include "runtime/processes/RankSocket.h"

namespace kiln {

/// What the first rank has the others do. It stands in front of the arguments.
enum class RankCall : uint32_t { Prefill, Decode, Verify, Truncate, OpenStream, Start, Next, Score };

/// Windows with memory of their own.
struct OwnedWindows {
  std::vector<std::vector<int32_t>> inputs, targets;
  std::vector<uint64_t> firstScored;

  std::vector<ScoreWindow> windows() const;
};

// Writing and reading arguments.
void putTokens(RankMessageWriter &writer, ArrayRef<std::vector<int32_t>> tokens);
std::vector<std::vector<int32_t>> getTokens(RankMessageReader &reader);

/// Starts without an editor of logits.
void putStarts(RankMessageWriter &writer, ArrayRef<RowStart> starts);
std::vector<RowStart> getStarts(RankMessageReader &reader);

void putRows(RankMessageWriter &writer, const BitVector &rows);
BitVector getRows(RankMessageReader &reader);

void putWindows(RankMessageWriter &writer, ArrayRef<ScoreWindow> windows);
OwnedWindows getWindows(RankMessageReader &reader);

} // namespace kiln
