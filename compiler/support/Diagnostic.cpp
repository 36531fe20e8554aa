#include "support/Diagnostic.h"

#include "support/text/Printable.h"

namespace kiln {

char DiagnosticError::ID = 0;

Diagnostic::Diagnostic(Severity severity, Location loc, std::string message)
    : severity(severity), message(std::move(message)) {
  if (!loc)
    return;
  file = loc.file->name;
  line = loc.line == 0 ? 0 : loc.file->linesBefore + loc.line;
  column = loc.column;
  sourceLine = loc.file->line(loc.line).str();
  // Readers count a carriage return, and some the end of the text, as columns of the line.
  if (loc.file->text)
    column = std::min(column, static_cast<unsigned>(sourceLine.size()) + 1);
}

void Diagnostic::print(raw_ostream &os) const {
  static constexpr StringRef names[] = {"error", "warning", "note"};
  if (!file.empty())
    os << printable(file, /*kept=*/"") << ':';
  if (line)
    os << line << ':';
  if (column)
    os << column << ':';
  if (!file.empty())
    os << ' ';
  os << names[static_cast<int>(severity)] << ": " << printable(message) << '\n';
  if (!sourceLine.empty())
    printSourceLine(os);
}

/// The offset of the character that contains the byte at `at`.
static size_t characterStart(StringRef text, size_t at) {
  while (at > 0 && at < text.size() && (text[at] & 0xC0) == 0x80)
    --at;
  return std::min(at, text.size());
}

void Diagnostic::printSourceLine(raw_ostream &os) const {
  // A line of megabytes (minified JSON) would hide the message, so only the part around the caret is shown.
  constexpr size_t maxShown = 160;
  StringRef text = sourceLine;
  size_t caret = characterStart(text, column ? column - 1 : 0);
  size_t first = caret > maxShown / 2 && text.size() > maxShown ? characterStart(text, caret - maxShown / 2) : 0;
  size_t last = std::max(caret, characterStart(text, first + maxShown));
  std::string before = printable(text.slice(first, caret), "\t");
  os << before << printable(text.slice(caret, last), "\t") << '\n';
  // Tabs are kept, so that the caret is below its character at any tab width.
  for (char c : before)
    if ((c & 0xC0) != 0x80) // one space for each character, not for each byte
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
