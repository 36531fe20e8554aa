// kiln: compiles GPT-2 into kernel plans and runs them. Exit code 0: done, 1: diagnosed, 2: usage.
#include "tools/kiln/Commands.h"
#include "tools/session/RankProcess.h"
#include "tools/session/UsageError.h"

#include "support/Diagnostic.h"
#include "support/process/Process.h"

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
  prepareProcess();
  Command command;
  if (std::optional<int> exitCode = parseCommandLine(argc, argv, command))
    return finishProcess(Error::success(), *exitCode);
  Error error = dispatch(command);
  int told = 0;
  error = llvm::handleErrors(std::move(error), [&](const ToldError &elsewhere) { told = elsewhere.exitCode; });
  if (told != 0)
    return finishProcess(std::move(error), told);
  const int exitCode = error.isA<UsageError>() ? 2 : 1;
  return finishProcess(std::move(error), 0, exitCode);
}
