//===- CublasLt.h - NVIDIA's library of matrix products -----------------------===//
#pragma once

#include "runtime/device/Device.h"

struct CUstream_st;

namespace kiln {

/// Runs products of plans. libcublasLt is loaded when a plan first needs it, so that programs start without it. The
/// algorithm of a shape is the first that the library's heuristics name, chosen once, so that runs are the same to the
/// last bit.
class CublasLt {
public:
  /// Error: the library is not found, or this program was built without its header; how to do without.
  static Expected<std::unique_ptr<CublasLt>> create();
  virtual ~CublasLt() = default;

  /// Enqueues a launch's product. Allocates nothing, so that graphs can hold it.
  virtual Error run(const KernelLaunch &launch, CUstream_st *stream) = 0;
};

} // namespace kiln
