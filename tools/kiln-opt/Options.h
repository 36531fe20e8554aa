//===- Options.h - the command line of kiln-opt -----------------------------===//
#pragma once

#include "passes/PassManager.h"

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

/// Fills `options`, or returns the exit code to leave with: 0 after --help, 2 after a usage error, both printed.
std::optional<int> parseOptions(int argc, char **argv, Options &options);
