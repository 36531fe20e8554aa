#include "runtime/device/emulated/compile/LazyKernel.h"

#include "support/Diagnostic.h"
#include "support/process/Parallel.h"

#include <mutex>

namespace kiln {

namespace {

/// A kernel that is being compiled.
struct Compilation {
  LazyKernel *code;
  std::vector<Diagnostic> failure = {};

  bool isOpen() const { return !code->library && failure.empty(); }
  void take(Expected<std::unique_ptr<KernelLibrary>> result) {
    if (!result) {
      failure = takeDiagnostics(result.takeError());
      return;
    }
    code->library = std::move(*result);
    if (code->library)
      code->kernel = &code->library->kernel(code->planned.name);
  }
};

} // namespace

Error compileMissing(const HostKernelCompiler &compiler, ArrayRef<LazyKernel *> codes,
                     const CompileProgress &progress) {
  std::vector<Compilation> all;
  for (LazyKernel *code : codes)
    if (!code->library && llvm::none_of(all, [&](const Compilation &other) { return other.code == code; }))
      all.push_back({code});
  if (all.empty())
    return Error::success();
  // Devices of one program need the same kernels at the same time: the second finds them in the cache.
  static std::mutex oneDevice;
  std::lock_guard<std::mutex> lock(oneDevice);
  parallelFor(all.size(), [&](size_t i) {
    const LazyKernel &code = *all[i].code;
    all[i].take(compiler.findCompiled(code.path, code.source, {code.planned.name}));
  });
  std::vector<Compilation *> missing;
  for (Compilation &compilation : all)
    if (compilation.isOpen())
      missing.push_back(&compilation);
  std::mutex ofProgress;
  size_t done = 0;
  parallelFor(missing.size(), [&](size_t i) {
    const LazyKernel &code = *missing[i]->code;
    missing[i]->take(compiler.compile(code.path, code.source, {code.planned.name}));
    std::lock_guard<std::mutex> lockOfProgress(ofProgress);
    if (progress)
      progress(++done, missing.size(), code.planned.name);
  });
  for (Compilation &compilation : all)
    if (!compilation.failure.empty())
      return llvm::make_error<DiagnosticError>(std::move(compilation.failure));
  return Error::success();
}

} // namespace kiln
