//===- Fuzz.h - helpers of fuzz targets -----------------------------------===//
//
// A fuzz target is one source with LLVMFuzzerTestOneInput, which reads one input. It is found wanting where a property
// below does not hold, a sanitizer or an assertion reports something, or an input takes too much time or memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"
#include "support/Diagnostic.h"

// libFuzzer's names, which RunCorpus.cpp calls too.
extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/// Before the first input, where a target has something to prepare.
int LLVMFuzzerInitialize(int *argc, char ***argv);
}

namespace kiln {

inline StringRef inputText(const uint8_t *data, size_t size) { return {reinterpret_cast<const char *>(data), size}; }

/// Ends the program with the message, unless the property holds.
void require(bool holds, const Twine &finding);
/// The same of two texts; the message shows where they differ.
void requireEqual(StringRef first, StringRef second, const Twine &finding);

/// Checks an error that is the right answer to an input: it has messages, each of a line of a file. Gives what
/// libFuzzer is told: -1, not to change this input further, of a text that is not even TOML or JSON, else 0.
int requirePlace(Error error);
/// The same, where a message may be about a file as a whole.
int requireFile(Error error);

/// Checks that a module is well-formed, and that its text reads back as a module of the same text.
void requireRoundTrip(const Module &module);

/// Plainly: a file that is complete or not there at all, as the project's own are, takes a hundred times as long.
void writePlainFile(StringRef path, StringRef contents);

/// Files for code that reads directories.
class FuzzDirectory {
public:
  FuzzDirectory();
  ~FuzzDirectory();
  FuzzDirectory(const FuzzDirectory &) = delete;

  StringRef path() const { return root; }
  std::string path(StringRef name) const { return (root + "/" + name).str(); }
  void write(StringRef name, StringRef contents) const { writePlainFile(path(name), contents); }

private:
  SmallString<128> root;
};

} // namespace kiln
