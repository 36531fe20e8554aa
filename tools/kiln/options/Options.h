//===- Options.h - the options of every command -----------------------------===//
#pragma once

#include "tools/kiln/CommandLine.h"

namespace CLI { // NOLINT(readability-identifier-naming): CLI11's name
class App;
} // namespace CLI

namespace kiln {

/// The options of every command. (They cannot be a variant from the start, since CLI11 binds options to addresses.)
struct Commands {
  CompileCommand compile;
  DumpCommand dump;
  RunCommand run;
  TokenizeCommand tokenize;
  EvalCommand eval;
  BenchCommand bench;
  LadderOptions ladder;
  ReportCommand report;
  TuneOptions tune;
  ImportCommand importing;
  ExportCommand exporting;
  CheckCommand check;
  CompareCommand compare;
};

/// Names the program, and prepares how it reports errors.
void setUp(CLI::App &app);

/// Adds the commands to the program, which fills in the one that it parses.
void addCommands(CLI::App &app, Commands &commands);

// The commands of MeasuringOptions.cpp.
/// Returns the command, to which addLadder() adds its subcommand `ladder`.
CLI::App *addBench(CLI::App &app, BenchCommand &command);
/// The subcommand of kiln bench; it takes a model of its own.
void addLadder(CLI::App &bench, LadderOptions &command);
void addReport(CLI::App &app, ReportCommand &command);
void addTune(CLI::App &app, TuneOptions &command);

// The commands of EvaluationOptions.cpp.
void addEval(CLI::App &app, EvalCommand &command);
void addCompare(CLI::App &app, CompareCommand &command);
void addCheck(CLI::App &app, CheckCommand &command);

// The commands of ConvertOptions.cpp.
void addImport(CLI::App &app, ImportCommand &command);
void addExport(CLI::App &app, ExportCommand &command);

/// The command of that name: `run`; `ladder` for `bench ladder`.
Command chosenCommand(StringRef name, Commands commands);

} // namespace kiln
