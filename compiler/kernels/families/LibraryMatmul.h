//===- LibraryMatmul.h - matrix products that a library can run ---------------===//
#pragma once

#include "kernels/families/KernelFamily.h"

namespace kiln {

/// out = gelu(a · weightᵀ + bias) or a · weightᵀ + bias + residual, as far as its parts are there.
struct LibraryMatmul {
  const Value *a = nullptr, *weight = nullptr, *out = nullptr;
  Value *bias = nullptr;           ///< or null
  const Value *residual = nullptr; ///< or null; never together with gelu
  bool gelu = false;               ///< by tanh
};

/// What cuBLASLt would have to compute for a plain or fused op; nothing if there is no such function, or a prompt's
/// rows are not what it runs over. The bias may still be of another type than the result, which the library refuses.
std::optional<LibraryMatmul> libraryMatmul(const Op &op);

/// Whether cuBLASLt has the products of all heads that an op is, QK^T or PV, by themselves: factors of one type.
bool isLibraryBatched(const Op &op);

/// The time of the best generated kernel for the op at these dims over the library's, as the models have it.
double librarySpeedup(const Op &op, const Target &target, const DimBinding &dims);

} // namespace kiln
