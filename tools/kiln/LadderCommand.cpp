#include "tools/kiln/Commands.h"
#include "tools/kiln/ProgressLine.h"
#include "tools/ladder/Page.h"
#include "tools/ladder/RungRunner.h"
#include "tools/ladder/Table.h"
#include "tools/session/UsageError.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/process/Process.h"

#include <future>

namespace kiln {

namespace {

using Work = std::pair<const LadderPart *, const Rung *>;

Expected<std::vector<LadderPart>> chosenParts(const LadderOptions &command) {
  std::vector<LadderPart> parts;
  const bool areSeveral = command.devices.size() > 1;
  if (command.parts.empty())
    llvm::copy_if(allLadderParts(), std::back_inserter(parts),
                  [&](const LadderPart &part) { return areSeveral || !part.needsSeveralDevices(); });
  for (const std::string &name : command.parts) {
    Expected<const LadderPart *> part = findLadderPart(name);
    if (!part)
      return part.takeError();
    if (!areSeveral && (*part)->needsSeveralDevices())
      return makeUsageError("--parts: " + name + " needs several GPUs; give --device cuda:all, or a list");
    parts.push_back(**part);
  }
  return parts;
}

/// Runs all rungs; while one runs, the next is compiled.
std::vector<MeasuredPart> measure(RungRunner &runner, ArrayRef<LadderPart> parts, ProgressLine &line) {
  std::vector<Work> work;
  for (const LadderPart &part : parts)
    for (const Rung &rung : part.rungs)
      work.push_back({&part, &rung});
  // Compiles in this thread if no other can be started.
  auto start = [&](size_t i) {
    return std::async(std::launch::async | std::launch::deferred,
                      [&runner, item = work[i]] { return runner.compile(*item.first, *item.second); });
  };
  std::vector<MeasuredPart> measured;
  std::future<Expected<CompiledPlan>> next = start(0);
  for (const auto &[i, item] : llvm::enumerate(work)) {
    auto [part, rung] = item;
    line.show(i, work.size(), part->heading() + ": " + rung->name.str());
    Expected<CompiledPlan> compiled = next.get();
    if (i + 1 < work.size())
      next = start(i + 1);
    if (measured.empty() || measured.back().part != part)
      measured.push_back({part, runner.reasons()});
    measured.back().results.push_back(runner.run(*part, *rung, std::move(compiled)));
  }
  line.finish();
  return measured;
}

size_t countWrong(ArrayRef<MeasuredPart> parts) {
  size_t wrong = 0;
  for (const MeasuredPart &part : parts)
    wrong += llvm::count_if(part.results, [](const RungResult &result) { return result.isWrong(); });
  return wrong;
}

} // namespace

Error run(const LadderOptions &given) {
  LadderOptions command = given;
  if (Error error = checkIsModel("kiln bench ladder", command.model))
    return error;
  if (Error error = resolveKernelDevices("kiln bench ladder", command.device).moveInto(command.devices))
    return error;
  auto parts = chosenParts(command);
  if (!parts)
    return parts.takeError();
  if (!command.scored.empty() && llvm::none_of(*parts, [](const LadderPart &part) { return part.wantsPerplexity; }))
    return makeUsageError("--eval: no rung of --parts " + llvm::join(command.parts, ",") +
                          " changes arithmetic; leave it out, or choose other parts");
  if (!command.page.empty())
    if (Error error = checkWritable(command.page))
      return error;
  auto runner = RungRunner::create(command);
  if (!runner)
    return runner.takeError();
  for (LadderPart &part : *parts)
    part = fitted(std::move(part), (*runner)->context());
  ProgressLine line(command.quiet);
  std::vector<MeasuredPart> measured = measure(**runner, *parts, line);
  StringRef model = llvm::sys::path::stem(StringRef(command.model).rtrim('/'));
  if (command.format == "json")
    printLadderJson(standardOutput(), (*runner)->deviceName(), model, measured);
  else
    printLadderMarkdown(standardOutput(), (*runner)->deviceName(), model, measured);
  if (!command.page.empty())
    if (Error error =
            writeFile(command.page, ladderPage((*runner)->deviceName(), model, (*runner)->target(), measured)))
      return error;
  if (size_t wrong = countWrong(measured))
    return makeError("kiln bench ladder: " + Twine(wrong) + " rungs failed or are wrong; the table says how");
  return Error::success();
}

} // namespace kiln
