//===- Options.h - the command line of kiln-opt -----------------------------===//
#pragma once

#include "passes/PassManager.h"

namespace CLI { // NOLINT(readability-identifier-naming): CLI11's name
class App;
} // namespace CLI

struct Options {
  std::string input = "-";
  std::string output = "-";
  std::string passes;
  std::string reproducer;
  bool listOps = false;
  bool listPasses = false;
  bool printIrAfterAll = false;
  bool verifyDiagnostics = false;
  bool splitInputFile = false;
  bool timePasses = false;
  bool checkNumerics = false;
};

/// Adds the options to the program, which fills them in.
void addOptions(CLI::App &app, Options &options);

/// Fills `options`, or returns the exit code to leave with: 0 after --help, 2 after a usage error, both printed.
std::optional<int> parseOptions(int argc, char **argv, Options &options);
