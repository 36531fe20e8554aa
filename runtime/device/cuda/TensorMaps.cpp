#include "runtime/device/cuda/TensorMaps.h"

#include "runtime/device/cuda/CudaKernel.h"
#include "support/Diagnostic.h"

#include <cuda.h>

namespace kiln {

static_assert(sizeof(EncodedTensorMap) == sizeof(CUtensorMap) && alignof(EncodedTensorMap) >= alignof(CUtensorMap));

Expected<TensorMapEncoder> TensorMapEncoder::create() {
  TensorMapEncoder encoder;
  if (Error error = findDriverFunction("cuTensorMapEncodeTiled", "the plan's kernels").moveInto(encoder.function))
    return error;
  return encoder;
}

static CUtensorMapDataType mapDataType(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  case DType::F16:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case DType::BF16:
    return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case DType::I32:
    return CU_TENSOR_MAP_DATA_TYPE_INT32;
  }
  llvm_unreachable("every type is named above");
}

Expected<std::vector<EncodedTensorMap>> TensorMapEncoder::encode(const KernelLaunch &launch) const {
  static constexpr cuuint32_t everyElement[] = {1, 1, 1, 1, 1};
  std::vector<EncodedTensorMap> encoded(launch.maps.size());
  for (const auto &[map, result] : llvm::zip(launch.maps, encoded)) {
    CUresult status = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
        reinterpret_cast<CUtensorMap *>(&result), mapDataType(map.dtype), static_cast<cuuint32_t>(map.extents.size()),
        reinterpret_cast<void *>(launch.arguments[map.argument]), map.extents.data(), map.strides.data(),
        map.box.data(), everyElement, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    // The runtime's errors have the numbers of the driver's.
    if (Error error = checkCuda(static_cast<cudaError_t>(status),
                                "kernel " + launch.planned->kernel + ": argument " + Twine(map.argument + 1) +
                                    ": cuTensorMapEncodeTiled returns CUresult " + Twine(static_cast<int>(status))))
      return error;
  }
  return encoded;
}

} // namespace kiln
