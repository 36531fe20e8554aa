#include "tools/kiln/Commands.h"
#include "tools/kiln/ProgressLine.h"
#include "tools/session/WritePlan.h"

#include "ir/Printer.h"
#include "support/files/Cache.h"
#include "support/files/File.h"
#include "support/files/StagedDirectory.h"
#include "support/process/Process.h"
#include "support/text/Printable.h"

namespace kiln {

namespace {

std::string megabytes(const Expr &bytes, const DimBinding &dims) {
  int64_t value = cantFail(bytes.evaluate(dims), "the plan's formulas have values");
  return formatv("{0:F1} MB", static_cast<double>(value) / 1e6).str();
}

void printSummary(const GeneratedPlan &generated, StringRef directory) {
  const Plan &plan = generated.plan;
  DimBinding dims;
  std::string at;
  for (const PlanDim &dim : plan.dims) {
    dims[dim.name] = std::min<int64_t>(dim.max, dim.name == plan.entries.batch ? 8 : 1024);
    at += (at.empty() ? "" : ", ") + dim.name + " = " + std::to_string(dims[dim.name]);
  }
  raw_ostream &os = llvm::errs();
  os << plan.model.name << " for " << plan.target << ": " << plan.kernels.size() << " kernels in "
     << printable(directory) << '\n';
  for (const PlanFunction &function : plan.functions)
    os << formatv("  @{0,-8} {1,4} steps, arena {2} at {3} (largest live set {4})\n", function.name,
                  function.steps.size(), megabytes(function.arena, dims), at, megabytes(function.live, dims));
  for (const PlanKernel &kernel : plan.kernels)
    for (const auto &[target, use] : kernel.resources)
      if (use.spillStores || use.spillLoads)
        os << "  note: " << kernel.name << " spills " << use.spillStores << " bytes of registers on " << target << '\n';
}

Error writeDump(StringRef directory, const GeneratedPlan &generated, const std::map<std::string, std::string> &ir) {
  std::map<std::string, std::string> files;
  for (const auto &[name, text] : ir)
    files["ir/" + name + ".kiln"] = text;
  for (const KernelSource &source : generated.sources)
    files["cuda/" + source.fileName()] = selfContained(source);
  return writeFiles(directory, files);
}

} // namespace

/// Error: the file cannot be written.
static Error printIr(const CompileCommand &command, const Module &module) {
  std::string text = toString(module);
  if (!command.output.empty() && command.output != "-")
    return writeFile(command.output, text);
  standardOutput() << text;
  return Error::success();
}

static Error writePlan(const CompileCommand &command, const CompileOptions &options) {
  ProgressLine progress(command.quiet);
  PlanOutput output;
  output.directory = command.output;
  output.cacheDirectory = command.noCache ? "" : defaultCacheDirectory();
  output.onProgress = [&](size_t done, size_t all, StringRef what) { progress.show(done, all, what); };
  output.onNote = [&](const Diagnostic &note) {
    progress.finish();
    if (!command.quiet)
      note.print(llvm::errs());
  };
  Expected<WrittenPlan> written = writePlan(command, options, output);
  progress.finish();
  if (!written)
    return written.takeError();
  if (!command.dumpDirectory.empty())
    if (Error error = writeDump(command.dumpDirectory, written->generated, written->ir))
      return error;
  if (!command.quiet)
    printSummary(written->generated, written->directory);
  return Error::success();
}

Error run(const CompileCommand &command) {
  Expected<CompileOptions> options = compileOptions(command);
  if (!options)
    return options.takeError();
  if (command.stage >= Stage::Cuda)
    return writePlan(command, *options);
  SourceManager sources;
  auto module = compileToStage(command.model, command.stage, *options, sources);
  if (!module)
    return module.takeError();
  return printIr(command, **module);
}

} // namespace kiln
