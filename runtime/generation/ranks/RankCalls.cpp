#include "runtime/generation/ranks/RankCalls.h"

namespace kiln {

std::vector<ScoreWindow> OwnedWindows::windows() const {
  std::vector<ScoreWindow> all;
  for (const auto &[input, target, first] : llvm::zip(inputs, targets, firstScored))
    all.push_back({input, target, first});
  return all;
}

void putTokens(RankMessageWriter &writer, ArrayRef<std::vector<int32_t>> tokens) {
  writer.put<uint64_t>(tokens.size());
  for (const std::vector<int32_t> &own : tokens)
    writer.putAll(ArrayRef(own));
}

std::vector<std::vector<int32_t>> getTokens(RankMessageReader &reader) {
  std::vector<std::vector<int32_t>> tokens;
  for (auto left = reader.get<uint64_t>(); left > 0 && !reader.isAtEnd(); --left)
    tokens.push_back(reader.getAll<int32_t>());
  return tokens;
}

void putStarts(RankMessageWriter &writer, ArrayRef<RowStart> starts) {
  writer.put<uint64_t>(starts.size());
  for (const RowStart &start : starts) {
    assert(!start.editor && "edited logits are chosen from on the host");
    writer.put<uint64_t>(start.row);
    writer.putAll(ArrayRef(start.tokens));
    writer.put(start.sampling.greedy);
    writer.put(start.sampling.temperature);
    writer.put(start.sampling.topK);
    writer.put(start.sampling.topP);
    writer.put(start.sampling.minP);
    writer.put(start.sampling.seed);
    writer.put(start.sequence);
    writer.put(start.position);
    writer.put(start.remaining);
    writer.putAll(ArrayRef(start.stopTokens));
    writer.put(start.isSameText);
  }
}

std::vector<RowStart> getStarts(RankMessageReader &reader) {
  std::vector<RowStart> starts;
  for (auto left = reader.get<uint64_t>(); left > 0 && !reader.isAtEnd(); --left) {
    RowStart &start = starts.emplace_back();
    start.row = reader.get<uint64_t>();
    start.tokens = reader.getAll<int32_t>();
    start.sampling.greedy = reader.get<bool>();
    start.sampling.temperature = reader.get<double>();
    start.sampling.topK = reader.get<int64_t>();
    start.sampling.topP = reader.get<double>();
    start.sampling.minP = reader.get<double>();
    start.sampling.seed = reader.get<uint64_t>();
    start.sequence = reader.get<uint64_t>();
    start.position = reader.get<uint64_t>();
    start.remaining = reader.get<int64_t>();
    start.stopTokens = reader.getAll<int32_t>();
    start.isSameText = reader.get<bool>();
  }
  return starts;
}

void putRows(RankMessageWriter &writer, const BitVector &rows) {
  writer.put<uint32_t>(rows.size());
  writer.putAll(ArrayRef(rows.getData().data(), rows.getData().size()));
}

BitVector getRows(RankMessageReader &reader) {
  const auto count = reader.get<uint32_t>();
  std::vector<uintptr_t> words = reader.getAll<uintptr_t>();
  constexpr unsigned wordBits = 8 * sizeof(uintptr_t);
  BitVector rows(static_cast<unsigned>(std::min<size_t>(count, words.size() * wordBits)));
  for (unsigned row = 0; row < rows.size(); ++row)
    rows[row] = (words[row / wordBits] >> (row % wordBits) & 1) != 0;
  return rows;
}

void putWindows(RankMessageWriter &writer, ArrayRef<ScoreWindow> windows) {
  writer.put<uint64_t>(windows.size());
  for (const ScoreWindow &window : windows) {
    writer.putAll(window.inputs);
    writer.putAll(window.targets);
    writer.put<uint64_t>(window.firstScored);
  }
}

OwnedWindows getWindows(RankMessageReader &reader) {
  OwnedWindows owned;
  for (auto left = reader.get<uint64_t>(); left > 0 && !reader.isAtEnd(); --left) {
    owned.inputs.push_back(reader.getAll<int32_t>());
    owned.targets.push_back(reader.getAll<int32_t>());
    owned.firstScored.push_back(reader.get<uint64_t>());
  }
  return owned;
}

} // namespace kiln
