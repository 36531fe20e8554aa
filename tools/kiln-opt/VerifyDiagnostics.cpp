#include "VerifyDiagnostics.h"

namespace kiln {

std::vector<const SourceFile *> splitInput(const SourceFile *file, SourceManager &sources, bool split) {
  if (!split)
    return {file};
  std::vector<const SourceFile *> pieces;
  std::string piece;
  unsigned line = 0;
  for (StringRef rest = *file->text; !rest.empty(); ++line) {
    auto [text, tail] = rest.split('\n');
    rest = tail;
    if (text.starts_with("// -----")) {
      pieces.push_back(sources.add(file->name, piece));
      piece = std::string(line + 1, '\n');
    } else {
      piece += (text + "\n").str();
    }
  }
  pieces.push_back(sources.add(file->name, piece));
  return pieces;
}

namespace {

struct Expectation {
  unsigned line;
  std::string severity, text;
  bool isMet = false;
};

/// Takes `@+1`, `@-1`, `@above` or `@below` off the front. Returns the line of the diagnostic relative to the comment.
int consumeOffset(StringRef &text) {
  int offset = 0;
  if (!text.consume_front("@"))
    return 0;
  if (text.consume_front("above"))
    return -1;
  if (text.consume_front("below"))
    return 1;
  text.consume_front("+");
  text.consumeInteger(10, offset);
  return offset;
}

/// Collects the expectations of one line. Error: a comment starts like an expectation but is malformed.
Error findOnLine(StringRef text, Location loc, std::vector<Expectation> &found) {
  while (true) {
    size_t at = text.find("expected-");
    if (at == StringRef::npos)
      return Error::success();
    text = text.drop_front(at + StringRef("expected-").size());
    StringRef severity = text.take_while(llvm::isAlpha);
    if (severity != "error" && severity != "note" && severity != "warning")
      continue;
    text = text.drop_front(severity.size()).ltrim();
    int offset = consumeOffset(text);
    text = text.ltrim();
    size_t close = text.find("}}");
    // An empty text would match every message.
    if (!text.consume_front("{{") || close == StringRef::npos || close == 2)
      return makeError(loc, "expected {{part of the message}} after expected-" + severity);
    found.push_back({loc.line + offset, severity.str(), text.take_front(close - 2).str()});
    text = text.drop_front(close);
  }
}

Expected<std::vector<Expectation>> findExpectations(const SourceFile &file) {
  std::vector<Expectation> found;
  Location loc{&file, 1, 1};
  for (StringRef rest = *file.text; !rest.empty(); ++loc.line) {
    auto [line, tail] = rest.split('\n');
    rest = tail;
    if (Error error = findOnLine(line, loc, found))
      return error;
  }
  return found;
}

StringRef severityName(const Diagnostic &diagnostic) {
  switch (diagnostic.severity) {
  case Diagnostic::Severity::Error:
    return "error";
  case Diagnostic::Severity::Warning:
    return "warning";
  case Diagnostic::Severity::Note:
    return "note";
  }
  llvm_unreachable("unknown severity");
}

bool meets(const Diagnostic &diagnostic, const SourceFile &file, const Expectation &expectation) {
  // A diagnostic about another file (an op's loc) has a line, but not one of this file.
  bool isPlaced = diagnostic.line != 0 && diagnostic.file == file.name;
  return !expectation.isMet && severityName(diagnostic) == expectation.severity &&
         (!isPlaced || diagnostic.line == expectation.line) && StringRef(diagnostic.message).contains(expectation.text);
}

} // namespace

Error verifyDiagnostics(const SourceFile &file, ArrayRef<Diagnostic> diagnostics) {
  Expected<std::vector<Expectation>> expectations = findExpectations(file);
  if (!expectations)
    return expectations.takeError();
  bool wantsNotes = llvm::any_of(*expectations, [](const Expectation &e) { return e.severity == "note"; });
  std::vector<Diagnostic> problems;
  for (const Diagnostic &diagnostic : diagnostics) {
    auto it = llvm::find_if(*expectations, [&](const Expectation &e) { return meets(diagnostic, file, e); });
    if (it != expectations->end()) {
      it->isMet = true;
    } else if (diagnostic.severity != Diagnostic::Severity::Note || wantsNotes) {
      problems.push_back(diagnostic);
      problems.back().message = "unexpected: " + diagnostic.message;
    }
  }
  for (const Expectation &expectation : *expectations)
    if (!expectation.isMet)
      problems.emplace_back(Diagnostic::Severity::Error, Location{&file, expectation.line, 1},
                            "expected " + expectation.severity + " did not come: " + expectation.text);
  if (problems.empty())
    return Error::success();
  return llvm::make_error<DiagnosticError>(std::move(problems));
}

} // namespace kiln
