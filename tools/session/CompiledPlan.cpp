#include "tools/session/CompiledPlan.h"

#include "codegen/CompilePlan.h"
#include "support/files/Cache.h"

namespace kiln {

/// Removes kernels that the request's calls do not launch.
static void restrictTo(GeneratedPlan &generated, const CompileRequest &request) {
  generated.plan.restrictTo(request.entries, generated.plan.bind(request.batch, request.tokens));
  llvm::erase_if(generated.sources,
                 [&](const KernelSource &source) { return !generated.plan.findKernel(source.name); });
}

Expected<CompiledPlan> compileTo(StringRef directory, const CompileRequest &request) {
  CompiledPlan compiled{directory.str(), {}, std::make_unique<SourceManager>(), nullptr};
  auto module = compileToStage(request.model, Stage::Plan, request.options, *compiled.sources);
  if (!module)
    return module.takeError();
  compiled.module = std::move(*module);
  Expected<GeneratedPlan> generated = generate(*compiled.module);
  if (!generated)
    return generated.takeError();
  if (!request.entries.empty())
    restrictTo(*generated, request);
  CubinOptions options;
  options.targets = {request.options.pipeline.target};
  options.cacheDirectory = defaultCacheDirectory();
  auto cubins = compileCubins(*generated, options);
  if (!cubins)
    return cubins.takeError();
  if (Error error = writePlanDirectory(directory, *generated, *cubins, {}))
    return error;
  compiled.plan = std::move(generated->plan);
  return compiled;
}

} // namespace kiln
