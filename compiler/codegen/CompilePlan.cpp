#include "codegen/CompilePlan.h"

#include "kernels/targets/Target.h"
#include "nvrtc/CubinCompiler.h"
#include "support/Diagnostic.h"
#include "support/files/StagedDirectory.h"
#include "support/model/TargetName.h"
#include "support/process/Parallel.h"

#include <mutex>

namespace kiln {

namespace fs = llvm::sys::fs;

Expected<std::vector<Cubin>> compileCubins(GeneratedPlan &generated, const CubinOptions &options) {
  for (const std::string &target : options.targets)
    if (Error error = checkCodeTarget(target))
      return error;
  Expected<CubinCompiler> compiler = CubinCompiler::create(options.cacheDirectory);
  if (!compiler)
    return compiler.takeError();

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
  std::mutex mutex;
  size_t done = 0;
  parallelFor(jobs.size(), [&](size_t i) {
    Job &job = jobs[i];
    const KernelSource &source = generated.sources[job.kernel];
    Expected<CompiledKernel> compiled = compiler->compile(source.name, source.text, job.target);
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
    bool isPtx = isPtxTarget(job.target);
    if (!isPtx)
      kernel.resources[job.target.str()] = job.result->resources;
    cubins.push_back({kernel.name, job.target.str(), std::move(isPtx ? job.result->ptx : job.result->cubin)});
  }
  generated.plan.nvrtcVersion = compiler->nvrtcVersion();
  for (const std::string &target : options.targets)
    (isPtxTarget(target) ? generated.plan.ptx : generated.plan.cubins).push_back(target);
  return cubins;
}

Error writePlanDirectory(StringRef directory, const GeneratedPlan &generated, ArrayRef<Cubin> cubins,
                         const std::map<std::string, std::string> &ir) {
  constexpr StringRef owned[] = {"plan.toml", "ir/*.kiln", "kernels/*.cu", "cubin/*/*.cubin", "ptx/*/*.ptx"};
  Expected<StagedDirectory> stage = StagedDirectory::create(directory, owned);
  if (!stage)
    return stage.takeError();
  if (Error error = stage->write("plan.toml", writePlan(generated.plan)))
    return error;
  for (const auto &[name, text] : ir)
    if (Error error = stage->write("ir/" + name + ".kiln", text))
      return error;
  for (const KernelSource &source : generated.sources)
    if (Error error = stage->write("kernels/" + source.fileName(), source.text))
      return error;
  for (const Cubin &cubin : cubins)
    if (Error error = stage->write(codeFile(cubin.target, cubin.kernel), cubin.bytes))
      return error;
  return stage->commit();
}

} // namespace kiln
