// Failures as messages.
#include "runtime/processes/RankFailure.h"

namespace kiln {

char LostRankError::ID;

Error RankFailure::toError() const {
  return isLost ? llvm::make_error<LostRankError>(diagnostics) : llvm::make_error<DiagnosticError>(diagnostics);
}

RankFailure RankFailure::of(const Twine &message, bool isLost) {
  return {{Diagnostic(Diagnostic::Severity::Error, {}, message.str())}, isLost};
}

RankMessage RankFailure::toMessage() const {
  RankMessageWriter writer;
  writer.put(isLost);
  writer.put<uint64_t>(diagnostics.size());
  for (const Diagnostic &diagnostic : diagnostics) {
    writer.put(diagnostic.severity);
    writer.putText(diagnostic.file);
    writer.put(diagnostic.line);
    writer.put(diagnostic.column);
    writer.putText(diagnostic.sourceLine);
    writer.putText(diagnostic.message);
  }
  return {RankMessageKind::Failure, std::move(writer.bytes)};
}

RankFailure RankFailure::read(const RankMessage &message) {
  RankMessageReader reader(message.bytes);
  RankFailure failure;
  failure.isLost = reader.get<bool>();
  for (auto count = reader.get<uint64_t>(); count > 0 && failure.diagnostics.size() < count && !reader.isAtEnd();) {
    Diagnostic &diagnostic = failure.diagnostics.emplace_back(reader.get<Diagnostic::Severity>(), Location(), "");
    diagnostic.file = reader.getText();
    diagnostic.line = reader.get<unsigned>();
    diagnostic.column = reader.get<unsigned>();
    diagnostic.sourceLine = reader.getText();
    diagnostic.message = reader.getText();
  }
  return failure;
}

} // namespace kiln
