// kiln-opt: runs passes over IR text. Exit code 0: done, 1: diagnosed, 2: usage.
#include "Listings.h"
#include "Options.h"
#include "VerifyDiagnostics.h"

#include "ir/Parser.h"
#include "ir/Printer.h"
#include "ops/OpTable.h"
#include "reference/NumericCheck.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/process/Process.h"
#include "support/text/Printable.h"

#include <ctime>

using namespace kiln;

namespace {

/// Sums the processor time of each pass and of the verifier after it, in the order of the run. Time of other programs
/// does not count.
class PassTimer {
public:
  void start() { begin = std::clock(); }
  void stop(StringRef pass) {
    entries.push_back({pass.str(), static_cast<double>(std::clock() - begin) * 1000 / CLOCKS_PER_SEC});
  }
  void print(raw_ostream &os) const {
    for (const auto &[pass, milliseconds] : entries)
      os << formatv("{0,10:F3} ms  {1}\n", milliseconds, pass);
  }

private:
  std::clock_t begin = 0;
  std::vector<std::pair<std::string, double>> entries;
};

/// Runs the passes over one piece of the input; returns the printed module.
Expected<std::string> process(const SourceFile *piece, SourceManager &sources, const Options &options,
                              ArrayRef<PassInvocation> passes, PassTimer &timer) {
  auto module = parseModule(piece, sources, opTable());
  if (!module)
    return module.takeError();
  NumericCheck check(/*seed=*/1);
  PassInstrumentation instrumentation;
  instrumentation.reproducerPath = options.reproducer;
  instrumentation.before = [&](const PassInvocation &, Module &current) -> Error {
    Error error = options.checkNumerics ? check.before(current) : Error::success();
    timer.start();
    return error;
  };
  instrumentation.after = [&](const PassInvocation &pass, Module &current) -> Error {
    timer.stop(pass.str());
    if (options.printIrAfterAll)
      llvm::errs() << "// IR after " << pass.str() << '\n' << printable(toString(current)) << '\n';
    if (!options.checkNumerics)
      return Error::success();
    if (Error error = check.after(current))
      return llvm::joinErrors(makeError("pass " + pass.str() + " changed what the module computes"), std::move(error));
    return Error::success();
  };
  if (Error error = runPasses(**module, passes, instrumentation))
    return error;
  return toString(**module);
}

Expected<const SourceFile *> openInput(const std::string &path, SourceManager &sources) {
  Expected<std::string> text = readInput(path);
  if (!text)
    return text.takeError();
  return sources.add(inputName(path), std::move(*text));
}

Error run(const Options &options, ArrayRef<PassInvocation> passes) {
  SourceManager sources;
  Expected<const SourceFile *> file = openInput(options.input, sources);
  if (!file)
    return file.takeError();

  PassTimer timer;
  std::string output;
  std::vector<Diagnostic> diagnostics;
  for (const SourceFile *piece : splitInput(*file, sources, options.splitInputFile)) {
    Expected<std::string> printed = process(piece, sources, options, passes, timer);
    if (!printed) {
      llvm::append_range(diagnostics, takeDiagnostics(printed.takeError()));
      continue;
    }
    output += (output.empty() ? "" : "// -----\n") + *printed;
  }
  if (options.timePasses)
    timer.print(llvm::errs());
  if (options.verifyDiagnostics)
    return verifyDiagnostics(**file, diagnostics);
  if (!diagnostics.empty())
    return llvm::make_error<DiagnosticError>(std::move(diagnostics));
  if (options.output != "-")
    return writeFile(options.output, output);
  standardOutput() << output;
  return Error::success();
}

} // namespace

int main(int argc, char **argv) {
  prepareProcess();
  Options options;
  if (std::optional<int> exitCode = parseOptions(argc, argv, options))
    return finishProcess(Error::success(), *exitCode);
  if (options.listOps)
    listOps(standardOutput());
  if (options.listPasses)
    listPasses(standardOutput());
  if (options.listOps || options.listPasses)
    return finishProcess(Error::success());
  Expected<std::vector<PassInvocation>> passes = parsePasses(options.passes);
  if (!passes)
    return finishProcess(passes.takeError(), 0, /*failureCode=*/2);
  return finishProcess(run(options, *passes));
}
