//===- Diagnostic.h - errors with a position ------------------------------===//
//
// Library code returns llvm::Error; every error of this project is a DiagnosticError, one or more messages in
// the style `gpt2-124m.toml:9:10: error: n_embd: expected a multiple of n_head (12), got 770`: lower case,
// 'expected X, got Y'. Only the programs under tools/ print them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"
#include "support/SourceManager.h"

namespace kiln {

/// One message. It holds all its text, so it outlives the SourceManager.
struct Diagnostic {
  enum class Severity { Error, Warning, Note };

  Severity severity = Severity::Error;
  std::string file;       ///< empty: not about a particular file
  unsigned line = 0;      ///< 1-based; 0: about the whole file
  unsigned column = 0;    ///< 1-based; 0: about the whole line
  std::string sourceLine; ///< shown with a caret under `column` when not empty
  std::string message;

  Diagnostic(Severity severity, Location loc, std::string message);

  /// Prints `file:line:col: error: message`, then the source line and a caret. Control characters in quoted text are
  /// printed as escapes (Printable.h).
  void print(raw_ostream &os) const;

private:
  void printSourceLine(raw_ostream &os) const;
};

/// The error type of every library of this project.
class DiagnosticError : public ErrorInfo<DiagnosticError> {
public:
  static char ID;

  explicit DiagnosticError(std::vector<Diagnostic> diagnostics) : diagnostics(std::move(diagnostics)) {}

  ArrayRef<Diagnostic> all() const { return diagnostics; }
  void log(raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;

private:
  std::vector<Diagnostic> diagnostics;
};

/// An error at a position; an unknown position gives `error: message`.
Error makeError(Location loc, const Twine &message);
/// An error with a note at a second position.
Error makeError(Location loc, const Twine &message, Location noteLoc, const Twine &note);
/// An error about a file as a whole: `PATH: error: message`.
Error makeFileError(StringRef path, const Twine &message);
/// An error that is not about a file: `error: message`.
Error makeError(const Twine &message);

/// Takes all diagnostics out of an error. An error of another kind becomes one diagnostic.
std::vector<Diagnostic> takeDiagnostics(Error error);

} // namespace kiln
