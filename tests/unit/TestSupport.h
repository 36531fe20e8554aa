//===- TestSupport.h - helpers of unit tests ------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/files/StagedDirectory.h"

#include <gtest/gtest.h>

// GoogleTest would print a StringRef as a list of characters.
namespace llvm {
inline void PrintTo(StringRef text, std::ostream *os) { *os << '"' << text.str() << '"'; }
} // namespace llvm

namespace kiln {

/// An error as programs print it, without the source line; "" for success.
inline std::string messageOf(Error error) {
  std::string text;
  raw_string_ostream os(text);
  for (Diagnostic diagnostic : takeDiagnostics(std::move(error))) {
    diagnostic.sourceLine.clear();
    diagnostic.print(os);
  }
  return text;
}

template <typename T> std::string messageOf(Expected<T> result) { return messageOf(result.takeError()); }

/// The value. An error fails the test, is printed, and ends the program, since the test cannot go on without its value.
template <typename T> T unwrap(Expected<T> result) {
  if (result)
    return std::move(*result);
  ADD_FAILURE() << messageOf(result.takeError());
  std::abort();
}

inline void expectSuccess(Error error) { EXPECT_EQ(messageOf(std::move(error)), ""); }

/// A file or folder of the source tree.
inline std::string sourcePath(StringRef relative) { return (KILN_SOURCE_DIR "/" + relative).str(); }

/// A directory that is removed with the test.
class TemporaryDirectory {
public:
  TemporaryDirectory() { llvm::sys::fs::createUniqueDirectory("kiln-test", path); }
  ~TemporaryDirectory() { llvm::sys::fs::remove_directories(path); }
  TemporaryDirectory(const TemporaryDirectory &) = delete;

  std::string str() const { return path.str().str(); }

  /// Writes a file in the directory and returns its path.
  std::string write(StringRef name, StringRef contents) const {
    std::string file = str() + "/" + name.str();
    expectSuccess(writeFile(file, contents));
    return file;
  }

  /// A message without the directory's own name, which differs from run to run.
  std::string relative(std::string message) const {
    for (size_t at; (at = message.find(str() + "/")) != std::string::npos;)
      message.erase(at, str().size() + 1);
    return message;
  }

private:
  SmallString<128> path;
};

} // namespace kiln
