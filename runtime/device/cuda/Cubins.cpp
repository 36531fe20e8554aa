#include "runtime/device/cuda/Cubins.h"

#include "nvrtc/CubinCompiler.h"
#include "runtime/device/cuda/Compatibility.h"
#include "support/Diagnostic.h"
#include "support/File.h"
#include "support/Parallel.h"
#include "support/TargetName.h"

namespace kiln {

/// Compiles the given kernels of the plan, on all cores.
static Error compileKernels(const Plan &plan, const KernelFiles &files, ArrayRef<size_t> wanted, StringRef why,
                            const ReadCubinsOptions &options, MutableArrayRef<std::string> cubins) {
  Expected<CubinCompiler> compiler = CubinCompiler::create(options.cacheDirectory);
  if (!compiler)
    return llvm::joinErrors(makeError(files.plan + ": " + why + ", expected cubins for " + options.target +
                                      ", this GPU's target; compile the model with --target " + options.target),
                            compiler.takeError());
  if (options.note)
    options.note((why + ": compiling " + Twine(wanted.size()) + " kernels for " + options.target +
                  (options.cacheDirectory.empty() ? "" : ", to be kept in " + options.cacheDirectory))
                     .str());
  std::vector<std::optional<std::vector<Diagnostic>>> failures(wanted.size());
  parallelFor(wanted.size(), [&](size_t i) {
    const std::string &name = plan.kernels[wanted[i]].name;
    Expected<std::string> source = readFile(files.source(name));
    auto compiled = source ? compiler->compile(name, *source, options.target) : source.takeError();
    if (compiled)
      cubins[wanted[i]] = std::move(compiled->cubin);
    else
      failures[i] = takeDiagnostics(compiled.takeError());
  });
  for (auto &failure : failures)
    if (failure)
      return llvm::joinErrors(makeError(files.plan + ": the plan was made for " + plan.target +
                                        ", and a kernel does not compile for " + options.target +
                                        ", this GPU's target; compile the model with --target " + options.target),
                              llvm::make_error<DiagnosticError>(std::move(*failure)));
  return Error::success();
}

Expected<std::vector<std::string>> readCubins(const Plan &plan, const KernelFiles &files,
                                              const ReadCubinsOptions &options) {
  std::optional<std::string> target = cubinTargetFor(options.target, plan.cubins);
  std::vector<std::string> cubins(plan.kernels.size());
  std::vector<size_t> missing;
  for (const auto &[i, kernel] : llvm::enumerate(plan.kernels)) {
    if (!target || files.isEdited(kernel.name)) {
      missing.push_back(i);
      continue;
    }
    Expected<std::string> cubin = readFile(files.plan + "/cubin/" + *target + "/" + kernel.name + ".cubin");
    if (!cubin)
      return cubin.takeError();
    cubins[i] = std::move(*cubin);
  }
  if (missing.empty())
    return cubins;
  // What copies by tensor maps multiplies by instructions of the plan's target alone.
  for (size_t i : missing)
    if (!plan.kernels[i].maps.empty() && options.target != plan.target)
      return makeError(files.plan + ": the plan was made for " + plan.target + ", and kernel " + plan.kernels[i].name +
                       " runs on no other GPU; compile the model with --target " + options.target);
  for (size_t i : missing)
    if (plan.kernels[i].cluster > 1 && computeCapability(options.target) < clusterCapability)
      return makeError(files.plan + ": the plan was made for " + plan.target + ", and the blocks of kernel " +
                       plan.kernels[i].name + " form clusters, which " + options.target +
                       " does not have; compile the model with --target " + options.target);
  std::string has = plan.cubins.empty() ? "no cubins" : "cubins for " + llvm::join(plan.cubins, ", ") + " only";
  std::string why = target ? "edited" : "the plan has " + has;
  if (Error error = compileKernels(plan, files, missing, why, options, cubins))
    return error;
  return cubins;
}

} // namespace kiln
