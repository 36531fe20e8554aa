#include "tools/kiln/run/GenerationOutput.h"
#include "tools/kiln/run/ResultFile.h"
#include "tools/kiln/run/RunSession.h"

#include "support/text/Json.h"

#include <chrono>

namespace kiln {

static LineContext contextOf(const RunCommand &command, const RunSession &session) {
  PlanModelInfo model = session.source.model();
  return {.defaults = session.sequenceOptions(command),
          .special = command.prompts.special,
          .samples = command.samples,
          .tokenizer = session.tokenizer(),
          .begin = session.source.beginToken(),
          .vocabulary = model.vocabulary,
          .context = model.context};
}

/// A line of the output. It has no times, so that it depends on its request alone.
static std::string resultLine(const LineRequest &request, const Generation &result) {
  json::Object object = toJson(result);
  if (request.id != json::Value(nullptr))
    object["id"] = request.id;
  if (request.sample)
    object["sample"] = *request.sample;
  return jsonText(std::move(object));
}

namespace {
/// What a job has done, for its summary.
struct JobTotals {
  using Clock = std::chrono::steady_clock;

  Clock::time_point start = Clock::now();
  size_t results = 0, promptTokens = 0, newTokens = 0;
  SpeculationTotals speculation;

  void add(const Generation &result) {
    speculation.add(result);
    ++results;
    promptTokens += result.promptTokens.size();
    newTokens += result.newTokens.size();
  }
  /// `devices`: how many did the work.
  void print(size_t resumed, size_t devices) const {
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (resumed > 0)
      llvm::errs() << resumed << " results were there\n";
    std::string where = devices > 1 ? formatv(" on {0} devices", devices).str() : "";
    llvm::errs() << formatv("{0} results{1}: {2} tokens of prompts, {3} new tokens, {4:F2} s ({5:F2} new tokens per "
                            "second)\n",
                            results, where, promptTokens, newTokens, seconds,
                            seconds > 0 ? static_cast<double>(newTokens) / seconds : 0);
  }
};
} // namespace

Error runLines(const RunCommand &command, RunSession &session) {
  if (Error error = session.check(command, /*prompts=*/{}))
    return error;
  Expected<std::vector<LineRequest>> requests = readRequestLines(command.lines.input, contextOf(command, session));
  if (!requests)
    return requests.takeError();
  const std::string &path = command.lines.output;
  Expected<ResultFile> output = command.lines.resume ? ResultFile::resume(path, *requests) : ResultFile::create(path);
  if (!output)
    return output.takeError();
  const size_t first = output->resumed();
  std::vector<GenerationRequest> generations;
  for (LineRequest &request : llvm::drop_begin(*requests, first))
    generations.push_back(request.generation);
  JobTotals totals;
  if (!generations.empty()) {
    if (Error error = session.openDevices(command))
      return error;
    // The rate is that of the work: it does not count the loading of weights.
    for (const auto &engine : session.engines)
      if (Executor *executor = engine->executor())
        if (Error error = executor->finishLoading())
          return error;
    totals.start = JobTotals::Clock::now();
    auto onFinished = [&](size_t index, Generation result) {
      totals.add(result);
      return output->add(first + index, resultLine((*requests)[first + index], result));
    };
    auto rows = static_cast<size_t>(session.onDevice.batch);
    Error error = traced(session.onDevice.trace, TraceLane::Host, "generate", [&] {
      return generateEach(session.models(), session.tokenizer(), generations, rows, session.jobOptions(command),
                          onFinished);
    });
    if (error)
      return error;
  }
  if (Error error = output->finish())
    return error;
  if (!command.quiet)
    totals.print(first, session.devices.size());
  if (!command.quiet && !command.draft.what.empty())
    totals.speculation.print();
  if (!command.quiet && command.check == "reference")
    llvm::errs() << session.engine().stepsChecked() << " steps agree with the reference executor\n";
  return Error::success();
}

} // namespace kiln
