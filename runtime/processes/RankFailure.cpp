// Failures as messages.
#include "runtime/processes/RankFailure.h"

namespace kiln {

char LostRankError::ID;

Error RankFailure::toError() const {
  if (teller == 0)
    return llvm::make_error<DiagnosticError>(diagnostics);
  return llvm::make_error<LostRankError>(diagnostics, teller);
}

RankFailure RankFailure::of(const Twine &message, std::optional<int64_t> teller) {
  return {{Diagnostic(Diagnostic::Severity::Error, {}, message.str())}, teller};
}

RankMessage RankFailure::toMessage() const {
  RankMessageWriter writer;
  writer.put(teller.value_or(-1));
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
  if (const auto teller = reader.get<int64_t>(); teller < 0)
    failure.teller.reset();
  else
    failure.teller = teller;
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
