#include "tools/compare/Compare.h"

#include "support/Diagnostic.h"
#include "support/process/Parallel.h"

namespace kiln {

namespace {

using Rows = std::vector<std::vector<float>>;

/// The logits of some sequences side by side, position by position.
class Feed {
public:
  Feed(const ComparedSide &side, size_t firstSequence) : side(side), firstSequence(firstSequence) {}

  /// `ids`: the sequences' tokens at a position, idleRow where a sequence has ended.
  Error step(size_t position, ArrayRef<int32_t> ids, Rows &logits) {
    if (side.file) {
      for (size_t row = 0; row < ids.size(); ++row)
        logits[row] = side.file->logits(static_cast<int64_t>(firstSequence + row), static_cast<int64_t>(position));
      return Error::success();
    }
    if (position > 0)
      return side.engine->model().decode(ids, logits);
    std::vector<std::vector<int32_t>> prompts;
    for (int32_t id : ids)
      prompts.push_back({id});
    return side.engine->model().prefill(prompts, logits);
  }

private:
  const ComparedSide &side;
  size_t firstSequence;
};

class Comparer {
public:
  Comparer(const ComparedSide &a, const ComparedSide &b, std::vector<ComparedSequence> &sequences,
           const CompareOptions &options)
      : a(a), b(b), sequences(sequences), options(options), sampler(SamplingParams()) {
    for (const ComparedSequence &sequence : sequences)
      positions += std::max(sequence.inputs, sequence.newTokens);
  }

  Error compareLogits();
  Error compareLayers();

  Comparison result;

private:
  Error compareBatch(size_t first, size_t count);
  Error compareStep(size_t first, size_t position, ArrayRef<int32_t> ids, const Rows &ofA, const Rows &ofB);
  Error write(size_t first, size_t position, const Rows &ofA);

  const ComparedSide &a, &b;
  std::vector<ComparedSequence> &sequences;
  const CompareOptions &options;
  Sampler sampler;
  size_t positions = 0;
};

/// Lets A choose the tokens behind a position, of sequences that it is to write. The last one is a target only.
Error Comparer::write(size_t first, size_t position, const Rows &ofA) {
  for (auto [row, logits] : llvm::enumerate(ofA)) {
    ComparedSequence &sequence = sequences[first + row];
    if (position >= sequence.newTokens)
      continue;
    Expected<int32_t> id = sampler.choose(logits, first + row, position + 1);
    if (!id)
      return id.takeError();
    sequence.tokens.push_back(*id);
    sequence.inputs = std::min(sequence.tokens.size(), sequence.newTokens);
  }
  return Error::success();
}

Error Comparer::compareStep(size_t first, size_t position, ArrayRef<int32_t> ids, const Rows &ofA, const Rows &ofB) {
  std::vector<RowComparison> rows(ids.size());
  parallelFor(ids.size(), [&](size_t row) {
    if (ids[row] != idleRow)
      rows[row] = compareRows(ofA[row], ofB[row], sequences[first + row].target(position));
  });
  for (auto [row, id] : llvm::enumerate(ids)) {
    if (id == idleRow)
      continue;
    if (!rows[row].isFinite)
      return makeError("sequence " + Twine(first + row) + ", token " + Twine(position) +
                       ": expected finite logits of " + a.name + " and " + b.name + ", got others");
    result.logits.add(rows[row], static_cast<int64_t>(first + row), static_cast<int64_t>(position),
                      sequences[first + row].target(position));
  }
  return Error::success();
}

Error Comparer::compareBatch(size_t first, size_t count) {
  Feed feedA(a, first), feedB(b, first);
  Rows ofA(count), ofB(count);
  for (size_t position = 0;; ++position) {
    std::vector<int32_t> ids;
    for (const ComparedSequence &sequence : ArrayRef(sequences).slice(first, count))
      ids.push_back(position < sequence.inputs ? sequence.tokens[position] : idleRow);
    if (llvm::all_of(ids, [](int32_t id) { return id == idleRow; }))
      return Error::success();
    if (Error error = feedA.step(position, ids, ofA))
      return error;
    if (Error error = write(first, position, ofA))
      return error;
    if (Error error = feedB.step(position, ids, ofB))
      return error;
    if (Error error = compareStep(first, position, ids, ofA, ofB))
      return error;
    if (options.onStep)
      options.onStep(static_cast<size_t>(result.logits.rows()), positions, result.logits);
  }
}

Error Comparer::compareLogits() {
  auto batch = static_cast<size_t>(options.batch);
  for (size_t first = 0; first < sequences.size(); first += batch)
    if (Error error = compareBatch(first, std::min(batch, sequences.size() - first)))
      return error;
  return Error::success();
}

Error Comparer::compareLayers() {
  LayerDifferences differences(*a.engine, *b.engine);
  for (const ComparedSequence &sequence : sequences) {
    std::vector<int32_t> targets;
    for (size_t position = 0; position < sequence.inputs; ++position)
      targets.push_back(sequence.target(position));
    if (Error error = differences.add({ArrayRef(sequence.tokens).take_front(sequence.inputs), targets, 0}))
      return error;
  }
  result.layers = std::move(differences.layers);
  result.largestOfScore = differences.largestScore;
  return Error::success();
}

} // namespace

Expected<Comparison> compareModels(const ComparedSide &a, const ComparedSide &b,
                                   std::vector<ComparedSequence> &sequences, const CompareOptions &options) {
  assert(!sequences.empty() && !(a.file && b.file) && "nothing to compare");
  Comparer comparer(a, b, sequences, options);
  if (Error error = comparer.compareLogits())
    return error;
  if (a.engine && b.engine)
    if (Error error = comparer.compareLayers())
      return error;
  return std::move(comparer.result);
}

} // namespace kiln
