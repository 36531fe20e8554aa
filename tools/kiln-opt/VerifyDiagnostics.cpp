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

std::vector<Expectation> findExpectations(StringRef text) {
  std::vector<Expectation> found;
  for (unsigned line = 1; !text.empty(); ++line) {
    auto [current, rest] = text.split('\n');
    text = rest;
    for (StringRef severity : {"error", "note", "warning"}) {
      auto [before, after] = current.split(("expected-" + severity).str());
      int offset = 0;
      if (after.consume_front("@")) {
        after.consume_front("+");
        after.consumeInteger(10, offset);
      }
      size_t open = after.find("{{"), close = after.find("}}");
      if (open == StringRef::npos || close == StringRef::npos)
        continue;
      found.push_back({line + offset, severity.str(), after.slice(open + 2, close).str()});
    }
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

bool meets(const Diagnostic &diagnostic, const Expectation &expectation) {
  bool isPlaced = diagnostic.line != 0;
  return !expectation.isMet && severityName(diagnostic) == expectation.severity &&
         (!isPlaced || diagnostic.line == expectation.line) && StringRef(diagnostic.message).contains(expectation.text);
}

} // namespace

Error verifyDiagnostics(const SourceFile &file, ArrayRef<Diagnostic> diagnostics) {
  std::vector<Expectation> expectations = findExpectations(*file.text);
  bool wantsNotes = llvm::any_of(expectations, [](const Expectation &e) { return e.severity == "note"; });
  std::vector<Diagnostic> problems;
  for (const Diagnostic &diagnostic : diagnostics) {
    auto it = llvm::find_if(expectations, [&](const Expectation &e) { return meets(diagnostic, e); });
    if (it != expectations.end()) {
      it->isMet = true;
    } else if (diagnostic.severity != Diagnostic::Severity::Note || wantsNotes) {
      problems.push_back(diagnostic);
      problems.back().message = "unexpected: " + diagnostic.message;
    }
  }
  for (const Expectation &expectation : expectations)
    if (!expectation.isMet)
      problems.emplace_back(Diagnostic::Severity::Error, Location{&file, expectation.line, 1},
                            "expected " + expectation.severity + " did not come: " + expectation.text);
  if (problems.empty())
    return Error::success();
  return llvm::make_error<DiagnosticError>(std::move(problems));
}

} // namespace kiln
