//===- CublasLt.h - NVIDIA's library of matrix products -----------------------===//
#pragma once

#include "runtime/device/Device.h"

struct CUstream_st;

namespace kiln {

/// Runs the matrix products of plans. libcublasLt is loaded when a plan first needs it, so that programs start without
/// it. Each shape uses the first algorithm that the library's heuristics return, chosen once, so that repeated runs
/// give the same bits.
class CublasLt {
public:
  /// Error: the library is not found, or this program was built without its header; the message says how to do without
  /// it.
  static Expected<std::unique_ptr<CublasLt>> create();
  virtual ~CublasLt() = default;

  /// Enqueues a launch's product. Allocates nothing, so that graphs can contain it.
  virtual Error run(const KernelLaunch &launch, CUstream_st *stream) = 0;
};

} // namespace kiln
