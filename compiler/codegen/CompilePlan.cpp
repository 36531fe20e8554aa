#include "codegen/CompilePlan.h"

#include "codegen/Nvrtc.h"
#include "codegen/TemplateFiles.h"
#include "codegen/Version.h"
#include "kernels/Target.h"
#include "support/Diagnostic.h"
#include "support/File.h"

#include <mutex>

namespace kiln {

namespace fs = llvm::sys::fs;

namespace {

/// A cache entry: the resources on one line, then the cubin.
std::string packEntry(const CompiledKernel &kernel) {
  const KernelResources &use = kernel.resources;
  return formatv("{0} {1} {2} {3} {4}\n", use.registers, use.sharedBytes, use.stackBytes, use.spillStores, use.spillLoads)
             .str() +
         kernel.cubin;
}

std::optional<CompiledKernel> unpackEntry(StringRef entry) {
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

class CubinCompiler {
public:
  CubinCompiler(const Nvrtc &nvrtc, const CubinOptions &options) : nvrtc(nvrtc), options(options) {
    // Part of every key: what is the same for all kernels.
    std::string common = std::string(compilerVersion) + "\n" + nvrtc.version() + "\n";
    for (const EmbeddedFile &file : templateFiles())
      common += (file.name + "\n" + file.text + "\n").str();
    commonHash = sha256Hex(common);
  }

  Expected<CompiledKernel> compile(const KernelSource &source, StringRef target) const {
    SmallString<128> path(options.cacheDirectory);
    if (!path.empty()) {
      llvm::sys::path::append(path, sha256Hex(commonHash + "\n" + target.str() + "\n" + source.text) + ".cubin");
      if (Expected<std::string> entry = fs::exists(path) ? readFile(path) : Expected<std::string>(std::string()); entry) {
        if (std::optional<CompiledKernel> kernel = unpackEntry(*entry))
          return std::move(*kernel);
      } else {
        llvm::consumeError(entry.takeError()); // a cache that cannot be read is an empty one
      }
    }
    Expected<CompiledKernel> kernel = nvrtc.compile("kernels/" + source.fileName(), source.text, target, templateFiles());
    // A full disk costs the next run time, it does not fail this one.
    if (kernel && !path.empty())
      llvm::consumeError(writeFile(path, packEntry(*kernel)));
    return kernel;
  }

private:
  const Nvrtc &nvrtc;
  const CubinOptions &options;
  std::string commonHash;
};

} // namespace

Expected<std::vector<Cubin>> compileCubins(GeneratedPlan &generated, const CubinOptions &options) {
  for (const std::string &target : options.targets)
    if (Expected<const Target *> known = findTarget(target); !known)
      return known.takeError();
  Expected<const Nvrtc *> nvrtc = Nvrtc::get();
  if (!nvrtc)
    return nvrtc.takeError();
  if (!options.cacheDirectory.empty())
    if (std::error_code failure = fs::create_directories(options.cacheDirectory))
      return makeFileError(options.cacheDirectory, "cannot create the cache: " + failure.message());

  struct Job {
    size_t kernel;
    StringRef target;
    std::optional<CompiledKernel> result;
    std::optional<std::vector<Diagnostic>> errors;
  };
  std::vector<Job> jobs;
  for (size_t i = 0; i < generated.sources.size(); ++i)
    for (const std::string &target : options.targets)
      jobs.push_back({i, target, std::nullopt, std::nullopt});
  CubinCompiler compiler(**nvrtc, options);
  std::mutex mutex;
  size_t done = 0;
  llvm::parallelFor(0, jobs.size(), [&](size_t i) {
    Job &job = jobs[i];
    const KernelSource &source = generated.sources[job.kernel];
    Expected<CompiledKernel> compiled = compiler.compile(source, job.target);
    std::lock_guard<std::mutex> lock(mutex);
    if (compiled)
      job.result = std::move(*compiled);
    else
      job.errors = takeDiagnostics(compiled.takeError());
    if (options.progress)
      options.progress(++done, jobs.size(), (source.name + " " + job.target).str());
  });

  std::vector<Cubin> cubins;
  for (Job &job : jobs) {
    if (job.errors)
      return llvm::make_error<DiagnosticError>(std::move(*job.errors));
    PlanKernel &kernel = generated.plan.kernels[job.kernel];
    kernel.resources[job.target.str()] = job.result->resources;
    cubins.push_back({kernel.name, job.target.str(), std::move(job.result->cubin)});
  }
  generated.plan.nvrtcVersion = (*nvrtc)->version();
  generated.plan.cubins = options.targets;
  return cubins;
}

Error writePlanDirectory(StringRef directory, const GeneratedPlan &generated, ArrayRef<Cubin> cubins) {
  // Replacing a directory removes what was in it: only a plan may go.
  if (fs::is_directory(directory)) {
    SmallString<128> planFile(directory);
    llvm::sys::path::append(planFile, "plan.toml");
    std::error_code failure;
    bool isEmpty = fs::directory_iterator(directory, failure) == fs::directory_iterator();
    if (!isEmpty && !fs::exists(planFile))
      return makeFileError(directory, "cannot write: the directory holds something else than a plan");
  }
  Expected<StagedDirectory> stage = StagedDirectory::create(directory);
  if (!stage)
    return stage.takeError();
  if (Error error = stage->write("plan.toml", writePlan(generated.plan)))
    return error;
  for (const KernelSource &source : generated.sources)
    if (Error error = stage->write("kernels/" + source.fileName(), source.text))
      return error;
  for (const Cubin &cubin : cubins)
    if (Error error = stage->write("cubin/" + cubin.target + "/" + cubin.kernel + ".cubin", cubin.bytes))
      return error;
  return stage->commit();
}

} // namespace kiln
