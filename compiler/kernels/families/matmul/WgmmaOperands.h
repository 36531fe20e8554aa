//===- WgmmaOperands.h - operands of products by wgmma that TMA loads ------------------===//
#pragma once

#include "kernels/families/KernelFamily.h"

namespace kiln {

/// The map of the weight permutes its rows within so many; 32 must divide the rows of all weights.
constexpr int64_t permutedRows = 32;
/// The same for tiles of so many columns, a multiple of 8: 32, 16 or 8.
constexpr int64_t permutedRowsOf(int64_t cols) { return cols % 32 == 0 ? permutedRows : cols % 16 == 0 ? 16 : 8; }
/// Bytes of an operand's row that are a step of the depth.
constexpr int64_t stepBytes = 128;

/// The blocks of a cluster with a tile of gemm_wgmma or score_wgmma.
int64_t clusterBlocks(const Tile &tile);

/// Whether templates can take the operands of the op's matmul as maps once the left one is in memory: 16-bit types, and
/// a plan for Hopper only.
bool canMapProduct(const Op &op, const Target &target);
/// The same, and the left operand is in memory.
bool acceptsMappedProduct(const Op &op, const Target &target);

/// Bytes of the mail by which blocks share operands of rows that one of them computes, as templates/row_mail.cuh has
/// it: for products behind which statistics are applied that the same kernel computes, of rows or of groups of columns.
/// 0 of others.
int64_t rowMailBytes(const Op &op);

/// The map of the left operand, for copies of `tileM` rows: its rows as they are, and boxes of no more rows than there
/// are, as templates/gemm/product_boxes.cuh has them.
OperandMap mapOfLeft(const Op &op, int64_t tileM);
/// The map of the weight, in dimensions that permute its rows, as templates/gemm/wgmma_tiled.cuh says. `rows`: of a
/// copy, a multiple of `permuted`.
OperandMap mapOfWeight(const Op &op, int64_t rows, int64_t permuted = permutedRows);

} // namespace kiln
