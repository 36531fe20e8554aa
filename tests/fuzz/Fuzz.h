//===- Fuzz.h - helpers of fuzz targets -----------------------------------===//
//
// A fuzz target is one source file with LLVMFuzzerTestOneInput, which reads one input. It fails if a property below
// does not hold, if a sanitizer or an assertion reports an error, or if an input takes too much time or memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"
#include "support/Diagnostic.h"

// libFuzzer's functions; RunCorpus.cpp calls them too.
extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/// Runs before the first input, if a target has something to prepare.
int LLVMFuzzerInitialize(int *argc, char ***argv);
}

namespace kiln {

inline StringRef inputText(const uint8_t *data, size_t size) { return {reinterpret_cast<const char *>(data), size}; }

/// Ends the program with the message if the property does not hold.
void require(bool holds, const Twine &finding);
/// Like require, for two texts that must be equal; the message shows where they differ.
void requireEqual(StringRef first, StringRef second, const Twine &finding);

/// Checks an error that is the right answer to an input: it has messages, each with a line of a file. Returns the value
/// for libFuzzer: -1, not to change this input further, if the text is not even TOML or JSON, else 0.
int requirePlace(Error error);
/// Like requirePlace, but a message may be about a whole file.
int requireFile(Error error);

/// Checks that a module is well-formed, and that its text reads back as a module of the same text.
void requireRoundTrip(const Module &module);

/// Writes a file without staging: the project's own functions, which write it completely or not at all, take a hundred
/// times as long.
void writePlainFile(StringRef path, StringRef contents);

/// A directory for code that reads files.
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
