//===- CompilePlan.h - cubins and PTX for a generated plan, and its directory ===//
#pragma once

#include "codegen/Generate.h"

namespace kiln {

struct CubinOptions {
  /// GPUs, for cubins, and virtual architectures, for PTX.
  std::vector<std::string> targets = {"sm_90a"};
  /// Compiled kernels by the hash of everything that goes in; empty: no cache.
  std::string cacheDirectory;
  /// Called after each kernel and target: how many are done, the total, and which one it was.
  std::function<void(size_t done, size_t all, StringRef what)> progress;
};

/// A kernel's cubin or PTX for a target.
struct Cubin {
  std::string kernel, target, bytes;
};

/// Compiles every kernel for every target on all cores, and writes resources and versions into the plan. The cache is
/// safe when several processes share it. Error: an unknown target, no NVRTC, or NVRTC's message about a kernel.
Expected<std::vector<Cubin>> compileCubins(GeneratedPlan &generated, const CubinOptions &options);

/// Writes plan.toml, kernels/*.cu, cubin/<target>/*.cubin, ptx/<target>/*.ptx and, by name of the stage, ir/*.kiln: the
/// whole directory or nothing. Error: the directory cannot be written, or it exists and is not a plan.
Error writePlanDirectory(StringRef directory, const GeneratedPlan &generated, ArrayRef<Cubin> cubins,
                         const std::map<std::string, std::string> &ir);

} // namespace kiln
