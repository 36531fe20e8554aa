// The writer of each form of kernel.
#include "codegen/KernelText.h"

namespace kiln {

Expected<KernelText> writeKernel(const Op &op, const KernelChoice &choice) {
  switch (choice.family->form) {
  case KernelForm::Matmul:
    return writeMatmulKernel(op, choice);
  case KernelForm::TensorMatmul:
    return writeTensorMatmulKernel(op, choice);
  case KernelForm::TensorScore:
    return writeTensorScoreKernel(op, choice);
  case KernelForm::ScoreRows:
    return writeScoreRowsKernel(op, choice);
  case KernelForm::Batched:
    return writeBatchedKernel(op, choice);
  case KernelForm::Flash:
  case KernelForm::TensorFlash:
    return writeFlashKernel(op, choice);
  case KernelForm::SplitKv:
    return writeSplitKvKernel(op, choice);
  case KernelForm::LayerNorm:
    return writeLayerNormKernel(op, choice);
  case KernelForm::RowStatistics:
    return writeRowStatisticsKernel(op, choice);
  case KernelForm::RowReduction:
    return writeRowReductionKernel(op, choice);
  case KernelForm::Softmax:
    return writeSoftmaxKernel(op, choice);
  case KernelForm::Library:
    break;
  case KernelForm::Exchange:
  case KernelForm::ExchangeShares:
    return writeExchangeKernel(op, choice);
  case KernelForm::ExchangeRows:
  case KernelForm::ExchangeSlices:
    return writeRowSumKernel(op, choice);
  case KernelForm::Map:
    return writeMapKernel(op, choice);
  case KernelForm::DecodeLayers:
    return writeDecodeLayersKernel(op, choice);
  }
  llvm_unreachable("unknown form");
}

} // namespace kiln
