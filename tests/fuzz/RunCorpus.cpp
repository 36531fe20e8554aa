// Runs a fuzz target once on every file of the given folders: the main program if libFuzzer is not available.
#include "Fuzz.h"

using namespace kiln;

// A target need not define it.
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static std::string current; ///< the current input

static void printCurrent(void *) { llvm::errs() << "input: " << current << '\n'; }

static std::vector<std::string> filesOf(StringRef folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end; it != end && !error; it.increment(error))
    files.push_back(it->path());
  llvm::sort(files);
  return files;
}

int main(int argc, char **argv) {
  llvm::sys::AddSignalHandler(printCurrent, nullptr);
  if (LLVMFuzzerInitialize)
    LLVMFuzzerInitialize(&argc, &argv);
  size_t count = 0;
  for (StringRef folder : ArrayRef(argv, argc).drop_front())
    for (const std::string &file : filesOf(folder)) {
      current = file;
      auto input = MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false);
      require(static_cast<bool>(input), "cannot read " + file);
      // A copy of the exact size, so that reads past the end are found.
      std::vector<uint8_t> bytes((*input)->getBufferStart(), (*input)->getBufferEnd());
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      ++count;
    }
  llvm::errs() << count << " inputs\n";
  return count == 0; // no seeds: nothing was tested
}
