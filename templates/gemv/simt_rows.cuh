//===- simt_rows.cuh - matrix product for few rows, bound by the weight's bytes ===//
//
// out[rows, cols] = A[rows, depth] · weight[cols, depth]^T for decode: 1 to 16 rows (more are done kRows at a time), fp32
// arithmetic on any GPU. A is read through Input, optionally layer normalised; the product leaves through Epilogue.
//
// Method: a row-wise matrix-vector product. The weight is read once, in 16-byte vectors, a warp walking along the depth of
// kColsPerWarp columns at once with kUnroll vectors a column and lane in flight; everything else is arranged around
// these loads. The first of them are issued before the block touches the activations, so that normalisation and staging hide
// behind them. The rows lie in shared memory as fp32, every block staging (and normalising) them for itself: they are tiny.
//
// Launch: grid ceildiv(cols, kWarps · kColsPerWarp), block 32 · kWarps.
//
// Which thread holds what: lane l of a warp has the elements (step · 32 + l) · V .. + V of each of the warp's columns, V = 16
// bytes of weight (less if depth is not a multiple of that), and kRows × kColsPerWarp partial sums. They are reduced over
// the lanes by halving: at each exchange a lane gives half of its rows away, so that it ends with one row's sums; then one
// lane a row calls the epilogue with the kColsPerWarp columns.
//
// Shared memory: kRows · kChunk · 4 bytes, kChunk the part of the depth that is staged at once: the whole depth where it fits
// in kSharedBytes. V = 8 (16-bit weights) reads its row elements in two halves, stored apart, which keeps 16-byte reads
// free of bank conflicts.
// Registers: 2 · kColsPerWarp · kUnroll · 4 for the weights of this and the next step, and kRows · kColsPerWarp sums.
//
// Config:
//   kCols, kDepth      extents, constant
//   kRows              rows of a pass, a power of two up to 16
//   kWarps             warps of a block, up to 32
//   kColsPerWarp       1, 2, 4 or 8
//   kUnroll            steps of 32 · V elements whose weights are in flight together
// Input, Epilogue: as for gemm/simt_tiled.cuh. The epilogue's V is the widest power of two that divides kColsPerWarp and cols.
//
//===----------------------------------------------------------------------===//
#pragma once
