#include "driver/Compile.h"

namespace kiln {

Expected<std::unique_ptr<Module>> compileToStage(StringRef model, Stage stage, const CompileOptions &options,
                                                 SourceManager &sources) {
  Expected<ModelConfig> config = readModelConfig(model, sources);
  if (!config)
    return config.takeError();
  std::unique_ptr<Module> module = buildModule(*config, options.build, sources);
  if (Error error = runPasses(*module, pipeline(stage, options.pipeline)))
    return error;
  return module;
}

} // namespace kiln
