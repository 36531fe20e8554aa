#include "nvrtc/CubinCompiler.h"

#include "support/Version.h"
#include "support/files/Cache.h"
#include "support/files/CacheEntry.h"
#include "support/files/File.h"
#include "support/model/TargetName.h"
#include "templates/TemplateFiles.h"

namespace kiln {

/// What is kept of a kernel for a target.
static std::string &codeOf(CompiledKernel &kernel, StringRef target) {
  return isPtxTarget(target) ? kernel.ptx : kernel.cubin;
}

/// A cache entry: the resources on one line, followed by the code.
static std::string packEntry(CompiledKernel &kernel, StringRef target) {
  const KernelResources &use = kernel.resources;
  return formatv("{0} {1} {2} {3} {4}\n", use.registers, use.sharedBytes, use.stackBytes, use.spillStores,
                 use.spillLoads)
             .str() +
         codeOf(kernel, target);
}

static std::optional<CompiledKernel> unpackEntry(StringRef entry, StringRef target) {
  auto [line, code] = entry.split('\n');
  SmallVector<StringRef, 5> numbers;
  line.split(numbers, ' ');
  CompiledKernel kernel;
  KernelResources &use = kernel.resources;
  int64_t *fields[] = {&use.registers, &use.sharedBytes, &use.stackBytes, &use.spillStores, &use.spillLoads};
  if (numbers.size() != std::size(fields) || code.empty())
    return std::nullopt;
  for (auto [number, field] : llvm::zip(numbers, fields))
    if (number.getAsInteger(10, *field))
      return std::nullopt;
  codeOf(kernel, target) = code.str();
  return kernel;
}

Expected<CubinCompiler> CubinCompiler::create(StringRef cacheDirectory) {
  Expected<const Nvrtc *> nvrtc = Nvrtc::get();
  if (!nvrtc)
    return nvrtc.takeError();
  if (!cacheDirectory.empty())
    if (Error error = openCache(cacheDirectory))
      return error;
  return CubinCompiler(**nvrtc, cacheDirectory);
}

CubinCompiler::CubinCompiler(const Nvrtc &nvrtc, StringRef cacheDirectory)
    : nvrtc(&nvrtc), cacheDirectory(cacheDirectory.str()) {
  commonHash = sha256Hex(std::string(compilerVersion) + "\n" + nvrtc.version() + "\n" + textOf(templateFiles()));
}

std::string CubinCompiler::keyOf(StringRef source, StringRef target) const {
  return sha256Hex(commonHash + "\n" + llvm::join(nvrtcOptions(target), "\n") + "\n" + source.str());
}

std::optional<CompiledKernel> CubinCompiler::read(StringRef key, StringRef target) const {
  std::optional<std::string> entry = readCacheEntry(pathOf(key), key);
  return entry ? unpackEntry(*entry, target) : std::nullopt;
}

std::optional<CompiledKernel> CubinCompiler::find(StringRef source, StringRef target) const {
  return cacheDirectory.empty() ? std::nullopt : read(keyOf(source, target), target);
}

Expected<CompiledKernel> CubinCompiler::compile(StringRef name, StringRef source, StringRef target) const {
  if (cacheDirectory.empty())
    return compileAnew(name, source, target);
  const std::string key = keyOf(source, target);
  if (std::optional<CompiledKernel> kept = read(key, target))
    return std::move(*kept);
  Expected<CompiledKernel> kernel = compileAnew(name, source, target);
  // If the disk is full, the next run takes longer, but this one succeeds.
  if (kernel)
    llvm::consumeError(writeCacheEntry(pathOf(key), key, packEntry(*kernel, target)));
  return kernel;
}

Expected<CompiledKernel> CubinCompiler::compileAnew(StringRef name, StringRef source, StringRef target) const {
  return nvrtc->compile(("kernels/" + name + ".cu").str(), source, target, templateFiles());
}

} // namespace kiln
