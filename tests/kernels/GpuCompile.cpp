#include "kernels/GpuCompile.h"

#include "templates/TemplateFiles.h"

namespace kiln {

Expected<CompiledKernel> compileForGpu(const Variant &kernel, StringRef target) {
  Expected<const Nvrtc *> nvrtc = Nvrtc::get();
  if (!nvrtc)
    return nvrtc.takeError();
  return (*nvrtc)->compile(kernel.name() + ".cu", kernel.text(), target, templateFiles());
}

} // namespace kiln
