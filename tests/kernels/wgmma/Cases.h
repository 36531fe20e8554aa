//===- Cases.h - the configurations of the wgmma family that are tested -----------===//
//
// The tests that run these cases on the CPU and the one that compiles them for Hopper share this list. Extents are
// ragged on purpose.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/AttentionCase.h"

namespace kiln {

/// A kernel, the number of its rows, and that of the blocks that share its tiles.
struct WgmmaMatmulCase {
  Variant kernel;
  int rows, blocks;
};

/// A kernel for few rows, and their number.
struct WgmmaRowsCase {
  Variant kernel;
  int rows;
};

std::vector<WgmmaMatmulCase> wgmmaActivationCases(); ///< matmul_bias_gelu
std::vector<WgmmaMatmulCase> wgmmaPartsCases();      ///< matmul_bias_gelu whose depth blocks share
std::vector<WgmmaMatmulCase> wgmmaResidualCases();   ///< matmul_bias_residual
std::vector<WgmmaMatmulCase> wgmmaOnceCases();       ///< matmul_once
std::vector<WgmmaMatmulCase> wgmmaNormCases();       ///< matmul_norm_bias
std::vector<WgmmaMatmulCase> wgmmaGroupsCases();     ///< matmul_norm_groups; extents of a multiple of 32
std::vector<WgmmaMatmulCase> wgmmaHeadsCases();      ///< matmul_bias_split_cache; kCols = 3 · kHeads · kHeadSize
std::vector<WgmmaMatmulCase> wgmmaMailCases();       ///< matmul_norm_mail; depths of a multiple of 8
std::vector<WgmmaRowsCase> wgmmaRowsCases();         ///< rows_bias_gelu
std::vector<WgmmaRowsCase> wgmmaRowsMailCases();     ///< rows_norm_mail; likewise
std::vector<WgmmaMatmulCase> wgmmaScoreCases();      ///< matmul_score
std::vector<AttentionCase> wgmmaFlashCases();        ///< wgmma_flash_attention

/// Every kernel of the lists above.
std::vector<Variant> allWgmmaKernels();

/// A depth for the same kernel.
std::string otherDepth(const WgmmaMatmulCase &one, function_ref<int(int)> upTo);
/// Another matrix with the same tiles and blocks.
WgmmaMatmulCase reshaped(const WgmmaMatmulCase &one, function_ref<int(int)> upTo);

WgmmaRowsCase reshapedRows(const WgmmaRowsCase &one, function_ref<int(int)> upTo);

/// Another kernel for few rows: how many a block has, the columns of a tile, what shares the depth, and a block's
/// tiles.
struct RowsTile {
  int rows, n, parts, groups, stages, rowStages = stages, chains = 1, turns = 1;
};
Variant withTile(const Variant &kernel, RowsTile tile);

/// Lets googletest name a case.
inline void PrintTo(const WgmmaMatmulCase &c, std::ostream *os) {
  *os << c.kernel.label() << ", " << c.rows << " rows, " << c.blocks << " blocks";
}
inline void PrintTo(const WgmmaRowsCase &c, std::ostream *os) { *os << c.kernel.label() << ", " << c.rows << " rows"; }

} // namespace kiln
