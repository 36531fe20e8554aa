#include "api/Functions.h"
#include "api/ModelChoices.h"

#include "support/files/Cache.h"
#include "tools/session/WritePlan.h"

namespace kiln::api {

static Expected<PlanRequest> readRequest(const char *model, const KilnCompileOptions &options) {
  PlanRequest request;
  request.model = model;
  if (Error error = copyTexts(options.targets, options.targetCount, "targets").moveInto(request.targets))
    return error;
  if (Error error = readChoices(options).moveInto(request.pipeline))
    return error;
  if (Error error = checkBatch("maxBatch", options.maxBatch))
    return error;
  request.maxBatch = options.maxBatch;
  if (options.draftTokens < 0 || options.draftTokens > mostDraftTokens)
    return makeMisuse("draftTokens: expected 0 to " + Twine(mostDraftTokens) + ", got " + Twine(options.draftTokens));
  if (options.draftTokens > 0)
    request.pipeline.draftTokens = options.draftTokens;
  request.passes = optionalText(options.passes).value_or("");
  request.withCubins = !options.withoutCubins;
  return request;
}

static Error compileModel(const char *model, const char *directory, const KilnCompileOptions *given) {
  if (Error error = expectGiven(model, "model"))
    return error;
  if (Error error = expectGiven(directory, "directory"))
    return error;
  Expected<KilnCompileOptions> options = readOptions(given, KILN_COMPILE_OPTIONS, "KILN_COMPILE_OPTIONS");
  if (!options)
    return options.takeError();
  Expected<PlanRequest> request = readRequest(model, *options);
  if (!request)
    return request.takeError();
  Expected<CompileOptions> compiler = compileOptions(*request);
  if (!compiler)
    return compiler.takeError();
  PlanOutput output;
  output.directory = directory;
  output.cacheDirectory = options->withoutCache ? "" : defaultCacheDirectory();
  output.onProgress = progressCallback(*options);
  if (options->onNote)
    output.onNote = [&](const Diagnostic &note) {
      std::string text;
      llvm::raw_string_ostream os(text);
      note.print(os);
      options->onNote(options->user, StringRef(text).rtrim('\n').str().c_str());
    };
  return writePlan(*request, *compiler, output).takeError();
}

KilnError *compile(const char *model, const char *directory, const KilnCompileOptions *options) noexcept {
  return guarded([&] { return compileModel(model, directory, options); });
}

} // namespace kiln::api
