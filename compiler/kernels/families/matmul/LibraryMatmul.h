//===- LibraryMatmul.h - matrix products that a library can run ---------------===//
#pragma once

#include "kernels/families/KernelFamily.h"

namespace kiln {

/// out = gelu(a · weightᵀ + bias) or a · weightᵀ + bias + residual, where gelu, bias and residual are optional.
struct LibraryMatmul {
  const Value *a = nullptr, *weight = nullptr, *out = nullptr;
  Value *bias = nullptr;           ///< or null
  const Value *residual = nullptr; ///< or null; never together with gelu
  bool gelu = false;               ///< by tanh
};

/// The product that cuBLASLt would compute for a plain or fused op; nothing if it has no such product, or if the op
/// does not run over a prompt's rows. The bias may still be of another type than the result, which the library refuses.
std::optional<LibraryMatmul> libraryMatmul(const Op &op);

/// Whether cuBLASLt can compute the op as a batch of all heads' products: an unfused QK^T or PV whose factors have one
/// type.
bool isLibraryBatched(const Op &op);

/// The modelled time of the best generated kernel for the op at these dims, divided by the library's.
double librarySpeedup(const Op &op, const Target &target, const DimBinding &dims);

} // namespace kiln
