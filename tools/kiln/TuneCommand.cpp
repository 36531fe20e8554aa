#include "tools/kiln/Commands.h"
#include "tools/kiln/ProgressLine.h"
#include "tools/session/Engine.h"
#include "tools/tune/Page.h"
#include "tools/tune/Report.h"
#include "tools/tune/Tuner.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/process/Process.h"
#include "support/text/Printable.h"

#include <chrono>

namespace kiln {

/// `1 min 20 s`
static std::string durationText(double seconds) {
  auto whole = static_cast<int64_t>(seconds + 0.5);
  return whole < 60 ? formatv("{0} s", whole).str() : formatv("{0} min {1} s", whole / 60, whole % 60).str();
}

Error run(const TuneOptions &given) {
  TuneOptions command = given;
  if (command.output.empty())
    command.output = (llvm::sys::path::stem(StringRef(command.model).rtrim('/')) + ".tuning.toml").str();
  if (Error error = checkIsModel("kiln tune", command.model))
    return error;
  if (Error error = resolveKernelDevice("kiln tune", command.device).moveInto(command.device))
    return error;
  for (const std::string &file : {command.output, command.page})
    if (!file.empty())
      if (Error error = checkWritable(file))
        return error;
  auto tuner = Tuner::create(command, command.output);
  if (!tuner)
    return tuner.takeError();
  ProgressLine line(command.quiet);
  auto start = std::chrono::steady_clock::now();
  size_t doneHere = 0;
  (*tuner)->progress = [&](size_t done, size_t all, const Twine &what) {
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    double left = elapsed.count() / static_cast<double>(++doneHere) * static_cast<double>(all - done);
    line.show(done, all, (what + ", " + durationText(left) + " left").str());
  };
  Error error = (*tuner)->measure();
  line.finish();
  if (error) {
    if (!command.quiet && !command.inCalls)
      llvm::errs() << "what was measured is kept in " << printable(command.output)
                   << ".partial; the same command goes on from there\n";
    return error;
  }
  if (Error failed = (*tuner)->choose())
    return failed;
  if (Error failed = writeFile(command.output, (*tuner)->database().str()))
    return failed;
  printTuningReport(standardOutput(), (*tuner)->callTimes(), (*tuner)->results());
  if (!command.page.empty()) {
    std::string title = "Tuning of " + llvm::sys::path::filename(StringRef(command.model).rtrim('/')).str() + " " +
                        command.pipeline.dtype.value_or(PipelineOptions().dtype) + " on " + (*tuner)->database().device;
    if (Error failed = writeFile(command.page, tuningPage(title, (*tuner)->callTimes(), (*tuner)->results())))
      return failed;
  }
  return (*tuner)->removeFiles();
}

} // namespace kiln
