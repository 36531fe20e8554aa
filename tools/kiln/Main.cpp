// kiln: compiles GPT-2 into kernel plans and runs them. Exit code 0: done, 1: diagnosed, 2: usage.
#include "tools/kiln/Commands.h"
#include "tools/session/UsageError.h"

#include "support/Diagnostic.h"
#include "support/File.h"

using namespace kiln;

static Error dispatch(const Command &command) {
  return std::visit(
      [](const auto &chosen) -> Error {
        if constexpr (std::is_same_v<std::decay_t<decltype(chosen)>, std::monostate>)
          return makeError("no command");
        else
          return run(chosen);
      },
      command);
}

int main(int argc, char **argv) {
  diagnoseFileSizeLimit();
  Command command;
  if (std::optional<int> exitCode = parseCommandLine(argc, argv, command))
    return *exitCode;
  Error error = dispatch(command);
  const int exitCode = error.isA<UsageError>() ? 2 : 1;
  // A full disk or a closed pipe behind standard output.
  error = llvm::joinErrors(std::move(error), flushStandardOutput());
  if (!error)
    return 0;
  for (const Diagnostic &diagnostic : takeDiagnostics(std::move(error)))
    diagnostic.print(llvm::errs());
  return exitCode;
}
