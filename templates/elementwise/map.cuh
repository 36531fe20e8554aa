//===- map.cuh - one function of every element ---------------------------------===//
//
// Calls body(index) for the indices 0 .. count, kVec neighbouring elements at a time: for bias, activation, residual,
// embedding, conversion, permutation. It is a grid-stride loop, so any grid is correct; with ceildiv(count, kThreads ·
// kVec · kUnroll) blocks, every thread has one round.
//
// Launch: the grid above or a smaller one, block kThreads. Neighbouring threads take neighbouring vectors; the kUnroll
// vectors of a thread in a round are a grid's threads apart. No shared memory; registers depend on the body.
//
// Config:
//   kThreads    threads of a block
//   kVec        elements per call: 1, 2, 4 or 8
//   kUnroll     vectors of a thread per round
//
// Body:
//   template <int V> void operator()(i64 index) const;
//     Elements index .. index + V, index a multiple of V. V is kVec, or 1 for the last count % kVec elements.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device/base.cuh"
#include "device/index.cuh"
#include "device/shared.cuh"

namespace kiln {

template <class Config> constexpr SharedBytes kMapElementsShared = {0, 0};

/// The kernel's body.
template <class Config, class Body> KILN_DEVICE void mapElements(i64 count, const Body &body) {
  constexpr int V = Config::kVec;
  const i64 vectors = count / V;
  const i64 stride = i64(gridBlocksX()) * Config::kThreads;
  const i64 thread = i64(blockIndexX()) * Config::kThreads + threadIndex();
  for (i64 first = thread; first < vectors; first += stride * Config::kUnroll)
#pragma unroll
    for (int u = 0; u < Config::kUnroll; ++u)
      if (first + u * stride < vectors)
        body.template operator()<V>((first + u * stride) * V);
  if constexpr (V > 1)
    if (thread < count - vectors * V)
      body.template operator()<1>(vectors * V + thread);
}

} // namespace kiln
