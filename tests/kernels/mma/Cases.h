//===- Cases.h - the configurations of the mma family that are tested -------------===//
//
// The tests that run these cases on the CPU and the one that compiles them for GPUs share this list. Extents are ragged
// on purpose.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/AttentionCase.h"
#include "kernels/Variant.h"

namespace kiln {

/// A kernel and the number of its rows.
struct MmaMatmulCase {
  Variant kernel;
  int rows;
};

std::vector<MmaMatmulCase> mmaActivationCases();     ///< matmul_bias_gelu
std::vector<MmaMatmulCase> mmaResidualCases();       ///< matmul_bias_residual
std::vector<MmaMatmulCase> mmaNormCases();           ///< matmul_norm_bias
std::vector<MmaMatmulCase> mmaGroupsCases();         ///< matmul_norm_groups; extents of a multiple of 32
std::vector<MmaMatmulCase> mmaSplitCases();          ///< split_matmul_bias_residual
std::vector<MmaMatmulCase> mmaScoreCases();          ///< matmul_score
std::vector<MmaMatmulCase> mmaNormalizedRowsCases(); ///< layernorm_rows_matmul_bias
std::vector<MmaMatmulCase> mmaRowsCases();           ///< rows_matmul_residual
std::vector<MmaMatmulCase> mmaWarpsCases();          ///< warps_bias_residual
std::vector<MmaMatmulCase> mmaWarpsGroupsCases();    ///< warps_norm_groups; extents of a multiple of 8
std::vector<Variant> mmaFragmentScoresCases();       ///< fragment_scores
std::vector<Variant> mmaFragmentValuesCases();       ///< fragment_values
std::vector<AttentionCase> mmaFlashCases();          ///< flash_attention

/// Every kernel of the lists above.
std::vector<Variant> allMmaKernels();

/// Another matrix of about the same size and with the same tiles, whose rows are whole accesses of 16 bytes.
MmaMatmulCase reshaped(const MmaMatmulCase &one, function_ref<int(int)> upTo);

/// The tile of a kernel of gemv/mma_warps.cuh.
struct WarpsTile {
  int rows, tilesN, warpsN, depthWarps, ranges, chains, unroll, buffers, turns = 1;
};
Variant withTile(const Variant &kernel, WarpsTile tile);
/// Another matrix of about the same size, of which every chain still has a step.
MmaMatmulCase reshapedWarps(const MmaMatmulCase &one, function_ref<int(int)> upTo);

/// Lets googletest name a case.
inline void PrintTo(const MmaMatmulCase &c, std::ostream *os) { *os << c.kernel.label() << ", " << c.rows << " rows"; }

} // namespace kiln
