// CLI11 is slow to compile and throws: this file keeps both to itself.
#include "Options.h"

#include "tools/usage/UsageMessages.h"

#include <CLI/CLI.hpp>

void addOptions(CLI::App &app, Options &options) {
  app.name("kiln-opt");
  app.description("Runs passes over IR text and prints the result");
  app.add_option("input", options.input, "IR text; - for standard input");
  app.add_option("-o", options.output, "where to write the IR; - for standard output");
  app.add_option("--passes", options.passes, "what to run, like a,b{n=2}");
  app.add_option("--reproducer", options.reproducer, "where to write the module that a pass made ill-formed");
  app.add_flag("--list-ops", options.listOps, "list ops with their operands and attributes, as a Markdown table");
  app.add_flag("--list-passes", options.listPasses, "list passes and their options");
  app.add_flag("--print-ir-after-all", options.printIrAfterAll, "print the module to stderr after each pass");
  app.add_flag("--verify-diagnostics", options.verifyDiagnostics,
               "compare diagnostics with // expected-error comments");
  app.add_flag("--split-input-file", options.splitInputFile, "treat what // ----- separates as files of their own");
  app.add_flag("--time-passes", options.timePasses, "print the processor time of each pass to stderr");
  app.add_flag("--check-numerics", options.checkNumerics, "evaluate before and after each pass on random inputs");
}

std::optional<int> parseOptions(int argc, char **argv, Options &options) {
  CLI::App app;
  addOptions(app, options);
  app.failure_message(kiln::usageMessage);
  try {
    kiln::parseArguments(app, kiln::ArrayRef(argv, argc).drop_front(std::min(argc, 1)));
  } catch (const CLI::ParseError &error) {
    return kiln::finishUsage(app, error);
  }
  return std::nullopt;
}
