#include "runtime/device/emulated/compile/Program.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"

#include <sys/mman.h>
#include <unistd.h>

namespace kiln {

/// This program's environment, with $TMPDIR replaced by `temporaries` unless that is empty.
static std::vector<std::string> environmentWith(StringRef temporaries) {
  std::vector<std::string> variables;
  for (char **variable = environ; *variable; ++variable)
    if (temporaries.empty() || !StringRef(*variable).starts_with("TMPDIR="))
      variables.push_back(*variable);
  if (!temporaries.empty())
    variables.push_back(("TMPDIR=" + temporaries).str());
  return variables;
}

Expected<Finished> runProgram(StringRef program, ArrayRef<std::string> arguments, StringRef temporaries) {
  // A file without a name: it disappears with this process, however that ends.
  int output = memfd_create("output", MFD_CLOEXEC);
  if (output < 0)
    return makeError("no memory for what " + program + " writes: " + std::strerror(errno));
  auto closeOutput = llvm::make_scope_exit([&] { close(output); });
  std::string path = formatv("/proc/self/fd/{0}", output);

  SmallVector<StringRef, 32> words = {program};
  words.append(arguments.begin(), arguments.end());
  std::vector<std::string> variables = environmentWith(temporaries);
  SmallVector<StringRef, 64> environment(variables.begin(), variables.end());
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(path), StringRef(path)};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(program, words, ArrayRef<StringRef>(environment), redirects, 0, 0, &message);
  Expected<std::string> text = readFile(path);
  if (!text)
    return text.takeError();
  return Finished{status, message + *text};
}

} // namespace kiln
