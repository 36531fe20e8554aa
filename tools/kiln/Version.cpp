#include "tools/kiln/Version.h"

#include "kernels/targets/Target.h"
#include "support/Version.h"

namespace kiln {

std::string programVersion() { return formatv("kiln {0} of revision {1}", compilerVersion, gitRevision); }

std::string versionText() {
  auto names = llvm::map_range(allTargets(), [](const Target &target) { return target.name; });
  return formatv("kiln {0}\nrevision {1}\nCUDA {2}\ntargets {3}", compilerVersion, gitRevision, KILN_CUDA_VERSION,
                 llvm::join(names, ", "));
}

} // namespace kiln
