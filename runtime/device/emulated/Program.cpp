#include "runtime/device/emulated/Program.h"

#include "support/Diagnostic.h"
#include "support/File.h"

namespace kiln {

namespace fs = llvm::sys::fs;

Expected<Finished> runProgram(StringRef program, ArrayRef<std::string> arguments) {
  SmallString<128> outputPath;
  if (std::error_code failure = fs::createTemporaryFile("kiln-output", "txt", outputPath))
    return makeError("cannot make a temporary file: " + failure.message());
  auto removeOutput = llvm::make_scope_exit([&] { fs::remove(outputPath); });

  SmallVector<StringRef, 32> words = {program};
  words.append(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(outputPath), StringRef(outputPath)};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(program, words, std::nullopt, redirects, 0, 0, &message);
  Expected<std::string> output = readFile(outputPath);
  if (!output)
    return output.takeError();
  return Finished{status, message + *output};
}

} // namespace kiln
