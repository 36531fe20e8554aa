//===- PhaseFunctors.h - functors of the kernel for all layers ----------------===//
#pragma once

#include "codegen/KernelText.h"
#include "kernels/families/DecodeRegion.h"

namespace kiln {

/// Writes the functors of a phase, which take two neighbouring columns at a time.
class PhaseFunctors {
public:
  PhaseFunctors(const Op &op, const KernelNames &names) : op(op), names(names) {}

  Functor token(const Op &embed) const;
  Functor embed(const Op &embed, bool prefetches) const;
  Functor norm(StringRef name, const Op &layernorm, const Op &product) const;
  Functor lastNorm(StringRef name, const Op &layernorm) const;
  /// `product`: the op whose result the template gives, a product or the sum of all ranks' products.
  Expected<Functor> product(StringRef name, const Op &product, ArrayRef<const Op *> behind,
                            const Value *residual = nullptr) const;
  Expected<Functor> logits(const DecodeRegion &region) const;

private:
  Functor sharedLogits(const DecodeRegion &region) const;

  /// Declares what the functor loads for two columns, before it is needed.
  static void addOperands(Functor &functor, ArrayRef<EpilogueEmitter::Ahead> ahead);

  const Op &op;
  const KernelNames &names;
};

} // namespace kiln
