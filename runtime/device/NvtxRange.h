//===- NvtxRange.h - ranges in the timelines of NVIDIA's profilers --------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A range of a thread's time, for a scope, by NVTX: Nsight Systems shows it above the kernels that were launched
/// meanwhile. Does nothing where no tool listens, or if the program was built without NVTX's header.
class NvtxRange {
public:
  /// `name` is called if a tool listens.
  explicit NvtxRange(function_ref<std::string()> name);
  explicit NvtxRange(StringRef name);
  ~NvtxRange();
  NvtxRange(const NvtxRange &) = delete;
  NvtxRange &operator=(const NvtxRange &) = delete;
};

} // namespace kiln
