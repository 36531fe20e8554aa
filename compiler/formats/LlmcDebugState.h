//===- LlmcDebugState.h - llm.c's gpt2_124M_debug_state.bin -----------------===//
//
// 256 i32 (magic, version, B, T), the inputs x and the targets y, i32[B,T] each, the logits f32[B,T,V] and the mean
// loss, f32, that PyTorch gives for them, then gradients, which are not read.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/files/MappedFile.h"

namespace kiln {

class LlmcDebugState {
public:
  /// `vocabulary`: of the model, V, which the file does not say. Error, `PATH: error: byte N: …`: not such a file, or
  /// of another version; sizes that the file does not have; an id that is not of the vocabulary.
  static Expected<LlmcDebugState> open(StringRef path, int64_t vocabulary);

  int64_t batch() const { return sequences; }
  int64_t length() const { return tokens; }

  /// T ids of a sequence.
  ArrayRef<int32_t> inputs(int64_t sequence) const { return idsOf(inputIds, sequence); }
  ArrayRef<int32_t> targets(int64_t sequence) const { return idsOf(targetIds, sequence); }
  /// The V logits that follow a token.
  std::vector<float> logits(int64_t sequence, int64_t token) const;
  float loss() const { return meanLoss; }

private:
  explicit LlmcDebugState(MappedFile file) : file(std::move(file)) {}

  friend class DebugStateParser;

  ArrayRef<int32_t> idsOf(const std::vector<int32_t> &ids, int64_t sequence) const {
    return ArrayRef(ids).slice(sequence * tokens, tokens);
  }

  MappedFile file;
  int64_t sequences = 0, tokens = 0, vocabulary = 0;
  std::vector<int32_t> inputIds, targetIds;
  StringRef logitBytes;
  float meanLoss = 0;
};

} // namespace kiln
