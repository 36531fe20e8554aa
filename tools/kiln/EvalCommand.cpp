#include "tools/kiln/Commands.h"
#include "tools/kiln/Input.h"
#include "tools/kiln/ProgressLine.h"
#include "tools/session/Engine.h"

#include "support/Diagnostic.h"
#include "support/File.h"
#include "support/Json.h"
#include "support/Process.h"

namespace kiln {

Error run(const EvalCommand &command) {
  EngineOptions engineOptions;
  engineOptions.device = resolveDevice(command.device);
  engineOptions.entries = {Entry::Score};
  Expected<ModelSource> source = openModel({.model = command.model,
                                            .weights = command.weights,
                                            .pipeline = command.pipeline,
                                            .reference = referenceUse(engineOptions)});
  if (!source)
    return source.takeError();
  if (!source->tokenizer)
    return makeFileError(source->filesPath, "no vocabulary here (vocab.json and merges.txt, or tokenizer.json)");
  Expected<std::string> text = readInput(command.text);
  if (!text)
    return text.takeError();
  std::vector<int32_t> ids = source->tokenizer->encode(*text);

  ProgressLine progress(command.quiet);
  PerplexityOptions options;
  options.window = command.window;
  options.stride = command.stride;
  options.onWindow = [&](int64_t window, int64_t count, const PerplexityResult &sofar) {
    progress.show(window, count, formatv("perplexity {0:F4}", sofar.perplexity()).str());
  };
  engineOptions.onKernelCompiled = [&](size_t done, size_t all, StringRef kernel) { progress.show(done, all, kernel); };
  auto engine = openEngine(*source, engineOptions);
  if (!engine)
    return engine.takeError();
  Expected<PerplexityResult> result = evaluatePerplexity((*engine)->scorer(), ids, options);
  if (!result)
    return result.takeError();
  progress.finish();
  if (command.json)
    standardOutput() << jsonText(json::Object{{"perplexity", result->perplexity()},
                                              {"nll", result->nll},
                                              {"tokens_scored", result->tokensScored},
                                              {"accuracy", result->accuracy()},
                                              {"window", result->window},
                                              {"stride", result->stride}})
                     << '\n';
  else
    standardOutput() << formatv("perplexity = {0:F4} +/- {1:F4} ({2} tokens, window {3}, stride {4})\n",
                                result->perplexity(), result->standardError(), result->tokensScored, result->window,
                                result->stride);
  return Error::success();
}

} // namespace kiln
