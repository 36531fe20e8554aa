//===- Rungs.h - the ladder of optimisations --------------------------------===//
//
// What people do by hand to GPT-2's forward pass, each step on the one before: parts of rungs, and a rung is no more
// than a strategy. `kiln bench ladder` measures them; docs/ladder.md walks through them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"

namespace kiln {

/// What is timed.
enum class Timed {
  Steps,      ///< of a prompt's evaluation, the kernels of some steps, with the L2 cache swept before
  Call,       ///< the evaluation of a prompt
  Generation, ///< of new tokens, one after the other
  FirstToken, ///< from weights in host memory to the logits of a prompt
};

struct Rung {
  StringRef name;     ///< a few words
  StringRef strategy; ///< as --strategy takes it
  /// It computes something else than the model does, so that the reference must do so too.
  bool isOtherModel = false;
};

struct LadderPart {
  StringRef name; ///< as --parts takes it
  StringRef title, about;
  Timed timed = Timed::Steps;
  int64_t batch = 1, length = 64;
  std::vector<Rung> rungs;
  /// Whether a step is timed. A step is an op of the planned module, plain or fused.
  bool (*takes)(const Op &step) = nullptr;
  StringRef base = "";                   ///< strategies that all rungs share
  std::optional<int64_t> layers = {};    ///< in place of the model's
  std::optional<int64_t> positions = {}; ///< the same
  bool wantsPerplexity = false;          ///< its rungs differ in their arithmetic

  /// `Fusion, B=4 T=64`
  std::string heading() const;
  /// The strategies of one of its rungs.
  std::string strategyOf(const Rung &rung) const;
};

/// The part for a model of that context, if it is shorter than the part's prompts: with prompts as long as it takes.
LadderPart fitted(LadderPart part, int64_t context);

/// Every part, in the order of the pages.
ArrayRef<LadderPart> allLadderParts();

/// The part of that name. Error: an unknown name; the message lists the known ones.
Expected<const LadderPart *> findLadderPart(StringRef name);

/// Prints every part with its rungs and their strategies.
void listLadder(raw_ostream &os);

} // namespace kiln
