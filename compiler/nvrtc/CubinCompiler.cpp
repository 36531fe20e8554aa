#include "nvrtc/CubinCompiler.h"

#include "support/Diagnostic.h"
#include "support/File.h"
#include "support/Version.h"
#include "templates/TemplateFiles.h"

namespace kiln {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

std::string defaultCacheDirectory() {
  if (auto given = llvm::sys::Process::GetEnv("KILN_CACHE"))
    return *given;
  SmallString<128> folder;
  if (!path::cache_directory(folder))
    return "";
  path::append(folder, "kiln");
  return folder.str().str();
}

/// A cache entry: the resources on one line, then the cubin.
static std::string packEntry(const CompiledKernel &kernel) {
  const KernelResources &use = kernel.resources;
  return formatv("{0} {1} {2} {3} {4}\n", use.registers, use.sharedBytes, use.stackBytes, use.spillStores,
                 use.spillLoads)
             .str() +
         kernel.cubin;
}

static std::optional<CompiledKernel> unpackEntry(StringRef entry) {
  auto [line, cubin] = entry.split('\n');
  SmallVector<StringRef, 5> numbers;
  line.split(numbers, ' ');
  CompiledKernel kernel;
  KernelResources &use = kernel.resources;
  int64_t *fields[] = {&use.registers, &use.sharedBytes, &use.stackBytes, &use.spillStores, &use.spillLoads};
  if (numbers.size() != std::size(fields) || cubin.empty())
    return std::nullopt;
  for (auto [number, field] : llvm::zip(numbers, fields))
    if (number.getAsInteger(10, *field))
      return std::nullopt;
  kernel.cubin = cubin.str();
  return kernel;
}

Expected<CubinCompiler> CubinCompiler::create(StringRef cacheDirectory) {
  Expected<const Nvrtc *> nvrtc = Nvrtc::get();
  if (!nvrtc)
    return nvrtc.takeError();
  if (!cacheDirectory.empty())
    if (std::error_code failure = fs::create_directories(cacheDirectory))
      return makeFileError(cacheDirectory, "cannot create the cache: " + failure.message());
  return CubinCompiler(**nvrtc, cacheDirectory);
}

CubinCompiler::CubinCompiler(const Nvrtc &nvrtc, StringRef cacheDirectory)
    : nvrtc(&nvrtc), cacheDirectory(cacheDirectory.str()) {
  std::string common = std::string(compilerVersion) + "\n" + nvrtc.version() + "\n";
  for (const EmbeddedFile &file : templateFiles())
    common += (file.name + "\n" + file.text + "\n").str();
  commonHash = sha256Hex(common);
}

Expected<CompiledKernel> CubinCompiler::compile(StringRef name, StringRef source, StringRef target) const {
  std::string entryPath;
  if (!cacheDirectory.empty())
    entryPath = cacheDirectory + "/" +
                sha256Hex(commonHash + "\n" + llvm::join(nvrtcOptions(target), "\n") + "\n" + source.str()) + ".cubin";
  if (!entryPath.empty() && fs::exists(entryPath)) {
    Expected<std::string> entry = readFile(entryPath);
    std::optional<CompiledKernel> kernel = entry ? unpackEntry(*entry) : std::nullopt;
    if (kernel)
      return std::move(*kernel);
    // An entry that cannot be read is as good as none.
    if (!entry)
      llvm::consumeError(entry.takeError());
  }
  Expected<CompiledKernel> kernel = nvrtc->compile(("kernels/" + name + ".cu").str(), source, target, templateFiles());
  // A full disk costs the next run time, it does not fail this one.
  if (kernel && !entryPath.empty())
    llvm::consumeError(writeFile(entryPath, packEntry(*kernel)));
  return kernel;
}

} // namespace kiln
