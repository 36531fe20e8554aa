#include "runtime/device/cuda/Cubins.h"

#include "nvrtc/CubinCompiler.h"
#include "runtime/device/cuda/Compatibility.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/model/TargetName.h"
#include "support/process/Parallel.h"

namespace kiln {

/// Compiles the given kernels of the plan that the cache does not have, on all cores.
static Error compileKernels(const Plan &plan, const KernelFiles &files, ArrayRef<size_t> wanted, StringRef why,
                            const ReadCubinsOptions &options, MutableArrayRef<KernelCode> codes) {
  const std::string gpu = options.target + ", the target of this GPU" + (options.gpu.empty() ? "" : ", " + options.gpu);
  Expected<CubinCompiler> compiler = CubinCompiler::create(options.cacheDirectory);
  if (!compiler)
    return llvm::joinErrors(makeError(files.plan + ": " + why + ", expected cubins for " + gpu +
                                      "; compile the model with --target " + options.target),
                            compiler.takeError());
  std::vector<std::string> sources(wanted.size());
  for (const auto &[i, source] : llvm::enumerate(sources))
    if (Error error = files.text(plan.kernels[wanted[i]].name).moveInto(source))
      return error;
  parallelFor(wanted.size(), [&](size_t i) {
    if (std::optional<CompiledKernel> kept = compiler->find(sources[i], options.target))
      codes[wanted[i]] = {std::move(kept->cubin), options.target};
  });
  std::vector<size_t> rest;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (codes[wanted[i]].bytes.empty())
      rest.push_back(i);
  if (options.note && !rest.empty())
    options.note((why + ": compiling " + Twine(rest.size()) + (rest.size() == 1 ? " kernel" : " kernels") + " for " +
                  options.target + (options.cacheDirectory.empty() ? "" : ", to be kept in " + options.cacheDirectory))
                     .str());
  std::vector<std::optional<std::vector<Diagnostic>>> failures(rest.size());
  parallelFor(rest.size(), [&](size_t k) {
    const size_t i = wanted[rest[k]];
    auto compiled = compiler->compile(plan.kernels[i].name, sources[rest[k]], options.target);
    if (compiled)
      codes[i] = {std::move(compiled->cubin), options.target};
    else
      failures[k] = takeDiagnostics(compiled.takeError());
  });
  for (auto &failure : failures)
    if (failure)
      return llvm::joinErrors(makeError(files.plan + ": the plan was made for " + plan.target +
                                        ", and a kernel does not compile for " + gpu +
                                        "; compile the model with --target " + options.target),
                              llvm::make_error<DiagnosticError>(std::move(*failure)));
  return Error::success();
}

/// What a plan has for GPUs.
static std::string codeIn(const Plan &plan) {
  std::string has = plan.cubins.empty() ? "no cubins" : "cubins for " + llvm::join(plan.cubins, ", ");
  if (!plan.ptx.empty())
    has += " and PTX for " + llvm::join(plan.ptx, ", ") + " and later";
  return "the plan has " + has + (plan.cubins.empty() && plan.ptx.empty() ? "" : " only");
}

/// Error: one of these kernels cannot be compiled for the target, since it needs what only some GPUs have.
static Error checkRunsOn(const std::string &target, const Plan &plan, const KernelFiles &files,
                         ArrayRef<size_t> kernels) {
  const std::string madeFor = files.plan + ": the plan was made for " + plan.target + ", and ";
  const std::string remedy = "; compile the model with --target " + target;
  for (size_t i : kernels) {
    const PlanKernel &kernel = plan.kernels[i];
    // What copies by tensor maps multiplies by instructions of the plan's target alone.
    if (!kernel.maps.empty() && target != plan.target)
      return makeError(madeFor + "kernel " + kernel.name + " runs on no other GPU" + remedy);
    if (kernel.cluster > 1 && computeCapability(target) < clusterCapability)
      return makeError(madeFor + "the blocks of kernel " + kernel.name + " form clusters, which " + target +
                       " does not have" + remedy);
  }
  return Error::success();
}

Expected<std::vector<KernelCode>> readCubins(const Plan &plan, const KernelFiles &files,
                                             const ReadCubinsOptions &options) {
  std::optional<std::string> target = cubinTargetFor(options.target, plan.cubins);
  if (!target && (target = ptxTargetFor(options.target, plan.ptx)) && options.note)
    options.note(codeIn(plan) + ": the driver compiles PTX for " + *target + " for this GPU, " + options.target);
  std::vector<KernelCode> codes(plan.kernels.size());
  std::vector<size_t> missing;
  for (const auto &[i, kernel] : llvm::enumerate(plan.kernels)) {
    if (!target || files.isEdited(kernel.name) || !files.macro.empty()) {
      missing.push_back(i);
      continue;
    }
    Expected<std::string> code = readFile(files.plan + "/" + codeFile(*target, kernel.name));
    if (!code)
      return code.takeError();
    codes[i] = {std::move(*code), *target};
  }
  if (missing.empty())
    return codes;
  if (Error error = checkRunsOn(options.target, plan, files, missing))
    return error;
  const std::string why = !files.macro.empty() ? "with " + files.macro : target ? "edited" : codeIn(plan);
  if (Error error = compileKernels(plan, files, missing, why, options, codes))
    return error;
  return codes;
}

} // namespace kiln
