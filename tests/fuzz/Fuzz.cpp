#include "Fuzz.h"

#include "ir/Parser.h"
#include "ir/Printer.h"
#include "ir/Verifier.h"
#include "ops/OpTable.h"

#include <cstdio>

namespace kiln {

void require(bool holds, const Twine &finding) {
  if (holds)
    return;
  llvm::errs() << "fuzz: " << finding << '\n';
  std::abort();
}

void requireEqual(StringRef first, StringRef second, const Twine &finding) {
  if (first == second)
    return;
  // The first lines that differ are the most informative.
  while (first.split('\n').first == second.split('\n').first) {
    first = first.split('\n').second;
    second = second.split('\n').second;
  }
  require(false, finding + "\n< " + first.split('\n').first + "\n> " + second.split('\n').first);
}

static std::string printed(const Diagnostic &diagnostic) {
  std::string text;
  raw_string_ostream os(text);
  diagnostic.print(os);
  return text;
}

static int requireMessages(Error error, function_ref<bool(const Diagnostic &)> hasPlace) {
  std::vector<Diagnostic> diagnostics = takeDiagnostics(std::move(error));
  require(!diagnostics.empty(), "an error without a message");
  for (const Diagnostic &diagnostic : diagnostics) {
    std::string text = printed(diagnostic);
    require(!diagnostic.message.empty(), "an error of no words: " + text);
    require(hasPlace(diagnostic), "an error without a place: " + text);
    // The column may be one past the last character, where the line ends.
    require(diagnostic.sourceLine.empty() || diagnostic.column <= diagnostic.sourceLine.size() + 1,
            "a place behind the end of its line: " + text);
  }
  return StringRef(diagnostics.front().message).starts_with("not valid ") ? -1 : 0;
}

int requirePlace(Error error) {
  return requireMessages(std::move(error), [](const Diagnostic &diagnostic) { return diagnostic.line > 0; });
}

int requireFile(Error error) {
  return requireMessages(std::move(error), [](const Diagnostic &diagnostic) { return !diagnostic.file.empty(); });
}

static std::string messageOf(Error error) {
  std::string text;
  for (const Diagnostic &diagnostic : takeDiagnostics(std::move(error)))
    text += printed(diagnostic);
  return text;
}

void requireRoundTrip(const Module &module) {
  if (Error error = verify(module))
    require(false, "an ill-formed module: " + messageOf(std::move(error)));
  std::string text = toString(module);
  SourceManager sources;
  Expected<std::unique_ptr<Module>> again = parseModule(sources.add("printed.kiln", text), sources, opTable());
  if (!again)
    require(false, "printed IR that does not parse: " + messageOf(again.takeError()) + "\n" + text);
  requireEqual(text, toString(**again), "printed IR that prints as something else");
}

FuzzDirectory::FuzzDirectory() {
  std::error_code error = llvm::sys::fs::createUniqueDirectory("kiln-fuzz", root);
  require(!error, "cannot make a temporary directory: " + error.message());
}

FuzzDirectory::~FuzzDirectory() { llvm::sys::fs::remove_directories(root); }

void writePlainFile(StringRef path, StringRef contents) {
  std::FILE *file = std::fopen(path.str().c_str(), "wb");
  bool isWritten = file && std::fwrite(contents.data(), 1, contents.size(), file) == contents.size();
  isWritten = file && std::fclose(file) == 0 && isWritten;
  require(isWritten, "cannot write " + path);
}

} // namespace kiln
