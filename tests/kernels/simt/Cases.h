//===- Cases.h - the configurations of the simt family that are tested ------------===//
//
// The tests that run these cases on the CPU and the one that compiles them for GPUs share this list. Extents are ragged
// on purpose. Together the cases take every branch that the templates choose at compile time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/AttentionCase.h"
#include "kernels/Variant.h"

namespace kiln {

/// A kernel and the number of its rows.
struct MatmulCase {
  Variant kernel;
  int rows;
};

/// A kernel and the number of its rows or elements.
struct RowsCase {
  Variant kernel;
  int rows, cols;
};

std::vector<MatmulCase> tiledCases();         ///< layernorm_matmul_bias_gelu
std::vector<MatmulCase> naiveCases();         ///< naive_layernorm_matmul_bias_gelu
std::vector<MatmulCase> residualCases();      ///< matmul_bias_residual
std::vector<MatmulCase> fewRowsCases();       ///< layernorm_rows_matmul_bias
std::vector<MatmulCase> normalizedRowCases(); ///< layernorm_row_matmul_bias
std::vector<MatmulCase> rowCases();           ///< row_matmul_bias_residual
std::vector<Variant> scoresCases();           ///< attention_scores
std::vector<Variant> naiveScoresCases();      ///< naive_attention_scores
std::vector<Variant> reducedScoresCases();    ///< reduced_attention_scores
std::vector<Variant> triangularNaiveCases();
std::vector<Variant> triangularRegisterCases();
std::vector<Variant> triangularTiledCases();
std::vector<Variant> valuesCases(); ///< attention_values
std::vector<AttentionCase> flashCases();
std::vector<AttentionCase> naiveFlashCases();
std::vector<AttentionCase> splitCases(StringRef kernel); ///< split_kv_attention or cluster_split_kv_attention
std::vector<RowsCase> layerNormCases();
std::vector<RowsCase> onePassLayerNormCases();
std::vector<RowsCase> rowStatisticsCases();
std::vector<RowsCase> mergedStatisticsCases(); ///< `cols` are groups
std::vector<RowsCase> rowReductionCases();
std::vector<RowsCase> scoreRowsCases(); ///< score_rows
std::vector<RowsCase> causalSoftmaxCases();
std::vector<RowsCase> maskedSoftmaxCases();
std::vector<RowsCase> mapCases();
Variant mathKernel(); ///< math_functions

/// Every kernel of the lists above.
std::vector<Variant> allSimtKernels();

/// Lets googletest name a case.
inline void PrintTo(const MatmulCase &c, std::ostream *os) { *os << c.kernel.label() << ", " << c.rows << " rows"; }
inline void PrintTo(const RowsCase &c, std::ostream *os) {
  *os << c.kernel.label() << ", " << c.rows << " x " << c.cols;
}

} // namespace kiln
