//===- Families.h - every kernel family of the table ------------------------===//
#pragma once

#include "kernels/families/KernelFamily.h"

namespace kiln {

// simt: fp32 arithmetic, any GPU
extern const KernelFamily simtRowFamily;
extern const KernelFamily simtRowsFamily;
extern const KernelFamily simtTiledFamily;
extern const KernelFamily simtBatchedFamily;
extern const KernelFamily simtScoresFamily;
extern const KernelFamily simtSplitKvFamily;
extern const KernelFamily simtFlashFamily;
extern const KernelFamily layerNormFamily;
extern const KernelFamily softmaxFamily;
extern const KernelFamily scoreRowsFamily;
extern const KernelFamily mapFamily;
extern const KernelFamily exchangeFamily;
extern const KernelFamily exchangeRowsFamily;
extern const KernelFamily exchangeSlicesFamily;
extern const KernelFamily exchangeSharesFamily;
extern const KernelFamily rowStatisticsFamily;
extern const KernelFamily rowReductionFamily;

// rungs: slower than the above, used by request only
extern const KernelFamily streamingLayerNormFamily;
extern const KernelFamily naiveMatmulFamily;
extern const KernelFamily naiveBatchedFamily;
extern const KernelFamily naiveScoresFamily;
extern const KernelFamily registerScoresFamily;
extern const KernelFamily blockReductionFamily;
extern const KernelFamily naiveFlashFamily;
extern const KernelFamily mmaBatchedFamily;
extern const KernelFamily mmaFragmentsFamily;

// mma: tensor cores by mma.sync, sm_80 and up
extern const KernelFamily mmaWarpsFamily;
extern const KernelFamily mmaRowsFamily;
extern const KernelFamily mmaTiledFamily;
extern const KernelFamily mmaTiledSplitFamily;
extern const KernelFamily mmaScoreFamily;
extern const KernelFamily mmaFlashFamily;

// wgmma: tensor cores by the instructions of sm_90a
extern const KernelFamily wgmmaTiledFamily;
extern const KernelFamily wgmmaRowsFamily;
extern const KernelFamily wgmmaScoreFamily;
extern const KernelFamily wgmmaFlashFamily;

// clusters of blocks, sm_90 and up
extern const KernelFamily clusterSplitKvFamily;
extern const KernelFamily decodeLayersFamily;
/// Not in the table: the kernel of @generate, which runs what decode_layers runs, and chooses tokens.
extern const KernelFamily generateTokensFamily;

// no kernel of this project: a step that a library runs. select-kernels uses it only on request.
extern const KernelFamily libraryMatmulFamily;
extern const KernelFamily libraryBatchedFamily;

/// Columns of a group whose statistics a product hands out, as in norm/group_statistics.cuh.
constexpr int64_t groupColumns = 8;
/// The longest rows whose statistics a warp computes, with unrolled loads or from registers.
constexpr int64_t mostColumnsOfWarp = 4096;

/// The kernel of @generate for a choice of decode_layers; none if there is no shared memory for it.
std::optional<KernelChoice> generateChoice(const Op &op, const KernelChoice &choice, const Target &target);

/// Bytes that a block's reduction of floats declares (BlockScratch of device/block.cuh).
constexpr int64_t blockScratchBytes = 32 * 4;

/// Whether tensor cores can run the op's matmul, for any source of its left operand: rows are whole 16-byte chunks.
bool fitsTensorCores(const Op &op, const Target &target);

/// Whether a tensor-core family would run the fused matmul if its layernorm were not part of it.
bool wantsNormOutside(const Op &op, const Target &target);

} // namespace kiln
