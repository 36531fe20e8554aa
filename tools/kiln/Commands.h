//===- Commands.h - one function per subcommand ---------------------------===//
#pragma once

#include "tools/kiln/CommandLine.h"

namespace kiln {

// Results go to standard output, progress and summaries to standard error.
Error run(const CompileCommand &command);
Error run(const DumpCommand &command);
Error run(const RunCommand &command);
Error run(const TokenizeCommand &command);
Error run(const EvalCommand &command);
Error run(const BenchCommand &command);
Error run(const ReportCommand &command);
Error run(const TuneOptions &command);
Error run(const LadderOptions &command);
Error run(const ImportCommand &command);
Error run(const ExportCommand &command);
Error run(const CheckCommand &command);
Error run(const CompareCommand &command);

} // namespace kiln
