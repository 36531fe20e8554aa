//===- VerifyDiagnostics.h - expected-error comments, as MLIR's tests use them -===//
#pragma once

#include "support/Diagnostic.h"

namespace kiln {

/// The pieces of a file between lines `// -----`, each padded with empty lines so that its positions are those of
/// the whole file; the file itself if it is not to be split.
std::vector<const SourceFile *> splitInput(const SourceFile *file, SourceManager &sources, bool split);

/// Compares diagnostics with comments in the text, in the form that MLIR's tests have:
///   // expected-error {{part of the message}}        on the line of the diagnostic
///   // expected-error @+1 {{part of the message}}    on a line before it; also @-1, @below, @above
/// Diagnostics without a place in the file are expected on any line. Notes need `expected-note` only when the text
/// has such comments. Error: what was not expected, what was expected and did not come, and malformed comments.
Error verifyDiagnostics(const SourceFile &file, ArrayRef<Diagnostic> diagnostics);

} // namespace kiln
