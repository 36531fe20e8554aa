//===- Rungs.h - the ladder of optimisations --------------------------------===//
//
// The optimisations that people apply by hand to GPT-2's forward pass, each on top of the one before. The ladder has
// parts, a part has rungs, and a rung is only a strategy. `kiln bench ladder` measures them; docs/ladder.md explains
// them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// What a part times.
enum class Timed {
  Steps,      ///< kernels of some steps of a prompt's evaluation, with the L2 cache overwritten before
  Call,       ///< the evaluation of a prompt
  Generation, ///< of new tokens, one after the other
  FirstToken, ///< from weights in host memory to the logits of a prompt
  Batch,      ///< the evaluation of prompts in host memory, dealt out to GPUs
};

/// The GPUs that evaluate a batch.
enum class BatchDevices {
  One,
  AllEachTime, ///< every GPU there is; memory is allocated, kernels are loaded and weights are copied for each batch
  AllKept,     ///< every GPU there is, with everything in place
};

struct Rung {
  StringRef name;     ///< a few words
  StringRef strategy; ///< as --strategy takes it
  /// The rung computes something other than the model, so the reference must do the same.
  bool isOtherModel = false;
  BatchDevices devices = BatchDevices::One; ///< of a part that times a batch
};

struct LadderPart {
  StringRef name; ///< as --parts takes it
  StringRef title, about;
  Timed timed = Timed::Steps;
  int64_t batch = 1, length = 64;
  std::vector<Rung> rungs;
  /// Whether a step is timed. A step is an op of the planned module, plain or fused.
  bool (*takes)(const Op &step) = nullptr;
  StringRef base = "";                   ///< strategies of all rungs
  std::optional<int64_t> layers = {};    ///< in place of the model's number
  std::optional<int64_t> positions = {}; ///< in place of the model's number
  bool wantsPerplexity = false;          ///< the arithmetic of its rungs differs

  bool needsSeveralDevices() const { return timed == Timed::Batch; }
  /// `Fusion, B=4 T=64`
  std::string heading() const;
  /// The strategies of one of its rungs.
  std::string strategyOf(const Rung &rung) const;
};

/// The part for a model whose context is shorter than the part's prompts: its prompts fill the context.
LadderPart fitted(LadderPart part, int64_t context);

/// Every part, in the order of the pages.
ArrayRef<LadderPart> allLadderParts();

/// The part of that name. Error: an unknown name; the message lists the known ones.
Expected<const LadderPart *> findLadderPart(StringRef name);

/// Prints every part with its rungs and their strategies.
void listLadder(raw_ostream &os);

} // namespace kiln
