#include "support/Diagnostic.h"

namespace kiln {

char DiagnosticError::ID = 0;

Diagnostic::Diagnostic(Severity severity, Location loc, std::string message)
    : severity(severity), message(std::move(message)) {
  if (!loc)
    return;
  file = loc.file->name;
  line = loc.line;
  column = loc.column;
  sourceLine = loc.file->line(loc.line).str();
}

void Diagnostic::print(raw_ostream &os) const {
  static constexpr StringRef names[] = {"error", "warning", "note"};
  if (!file.empty())
    os << file << ':';
  if (line)
    os << line << ':';
  if (column)
    os << column << ':';
  if (!file.empty())
    os << ' ';
  os << names[static_cast<int>(severity)] << ": " << message << '\n';
  if (sourceLine.empty())
    return;
  // A line of megabytes (minified JSON) would bury the message: show the part around the caret.
  constexpr size_t maxShown = 160;
  size_t caret = column ? column - 1 : 0;
  size_t first = caret > maxShown / 2 && sourceLine.size() > maxShown ? caret - maxShown / 2 : 0;
  StringRef shown = StringRef(sourceLine).substr(first, maxShown);
  os << shown << '\n';
  // Tabs are kept, so that the caret stands under its character at any tab width.
  for (char c : shown.take_front(caret - first))
    os << (c == '\t' ? '\t' : ' ');
  os << "^\n";
}

void DiagnosticError::log(raw_ostream &os) const {
  for (const Diagnostic &diagnostic : diagnostics)
    diagnostic.print(os);
}

std::error_code DiagnosticError::convertToErrorCode() const { return llvm::inconvertibleErrorCode(); }

static Error fromOne(Diagnostic diagnostic) {
  return llvm::make_error<DiagnosticError>(std::vector<Diagnostic>{std::move(diagnostic)});
}

Error makeError(Location loc, const Twine &message) {
  return fromOne({Diagnostic::Severity::Error, loc, message.str()});
}

Error makeError(Location loc, const Twine &message, Location noteLoc, const Twine &note) {
  std::vector<Diagnostic> both;
  both.emplace_back(Diagnostic::Severity::Error, loc, message.str());
  both.emplace_back(Diagnostic::Severity::Note, noteLoc, note.str());
  return llvm::make_error<DiagnosticError>(std::move(both));
}

Error makeFileError(StringRef path, const Twine &message) {
  Diagnostic diagnostic(Diagnostic::Severity::Error, {}, message.str());
  diagnostic.file = path.str();
  return fromOne(std::move(diagnostic));
}

Error makeError(const Twine &message) { return makeError(Location(), message); }

std::vector<Diagnostic> takeDiagnostics(Error error) {
  std::vector<Diagnostic> all;
  llvm::handleAllErrors(
      std::move(error), [&](const DiagnosticError &e) { all.insert(all.end(), e.all().begin(), e.all().end()); },
      [&](const llvm::ErrorInfoBase &e) { all.emplace_back(Diagnostic::Severity::Error, Location(), e.message()); });
  return all;
}

} // namespace kiln
