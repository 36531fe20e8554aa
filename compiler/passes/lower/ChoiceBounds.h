//===- ChoiceBounds.h - the numbers of rows that kernels are chosen for -------------===//
#pragma once

#include "kernels/families/KernelFamily.h"

namespace kiln {

/// What choose-tiles chooses a kernel of an op for, whose family is this or one of its kind; the first that takes a
/// call is the call's. The last one takes all calls. `batchInvariant`: as ModuleAttribute::batchInvariant says.
std::vector<ChoiceBound> choiceBounds(const Op &op, const KernelFamily &family, int64_t batchInvariant);

/// Whether the family computes products in tensor cores.
inline bool isTensorProduct(const KernelFamily &family) {
  return family.form == KernelForm::TensorMatmul || family.form == KernelForm::TensorScore;
}

/// What is looked up of measurements for any calls of up to so many rows: as of a single prompt, if they are those of
/// the longest prompt of a class.
ChoiceBound choiceBoundOf(const Op &op, const KernelFamily &family, int64_t rows);

/// Whether prompts of the op's class add up in one order: then its kernels are chosen class by class (PromptTiles.cpp).
bool hasPromptClasses(const Op &op, const KernelFamily &family, int64_t batchInvariant);
/// The most tokens of a prompt of each class, the longest first.
SmallVector<int64_t, 3> promptClassesOf(const Op &op);
/// The bounds of a class, by the most tokens of its prompts, those with the fewest rows first.
std::vector<ChoiceBound> boundsOfPromptClass(const Op &op, int64_t mostTokens);
/// Numbers of rows that get a choice of their own besides the bound, for ops that have no classes.
SmallVector<int64_t, 3> variantRows(const Op &op, const KernelFamily &family);

} // namespace kiln
