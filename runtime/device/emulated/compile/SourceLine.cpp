#include "runtime/device/emulated/compile/SourceLine.h"

#include "runtime/device/emulated/compile/Program.h"

#include <dlfcn.h>

namespace kiln {

static bool isOfPrimitive(const SourceLine &line, const EmulatedKernel &kernel) {
  if (line.file == kernel.compiledSource)
    return line.line <= kernel.isPrimitive.size() && kernel.isPrimitive[line.line - 1];
  return StringRef(line.file).contains("/device/");
}

SourceLine sourceLineOf(const void *code, const EmulatedKernel &kernel) {
  Dl_info library;
  if (!dladdr(code, &library))
    return {};
  llvm::ErrorOr<std::string> tool = llvm::sys::findProgramByName("addr2line");
  if (!tool)
    return {};
  // Step back one byte: the return address may belong to the next line already.
  uint64_t offset = static_cast<const char *>(code) - static_cast<const char *>(library.dli_fbase) - 1;
  Expected<Finished> finished = runProgram(*tool, {"-i", "-e", library.dli_fname, "0x" + llvm::utohexstr(offset)});
  if (!finished) {
    llvm::consumeError(finished.takeError());
    return {};
  }
  // The output has lines `FILE:LINE`, perhaps followed by ` (discriminator N)`: one for each inlined function,
  // innermost first.
  SmallVector<StringRef, 8> frames;
  StringRef(finished->output).split(frames, '\n', -1, /*KeepEmpty=*/false);
  SourceLine result;
  for (StringRef frame : frames) {
    auto [file, line] = frame.split(" (").first.rsplit(':');
    SmallString<128> name(file);
    llvm::sys::path::remove_dots(name);
    SourceLine found = {name.str().str(), 0};
    if (line.getAsInteger(10, found.line) || found.line == 0)
      continue;
    result = found;
    if (!isOfPrimitive(found, kernel))
      break;
  }
  return result;
}

} // namespace kiln
