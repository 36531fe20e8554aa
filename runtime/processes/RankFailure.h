//===- RankFailure.h - why a rank has failed ------------------------------===//
#pragma once

#include "runtime/processes/RankSocket.h"
#include "support/Diagnostic.h"

namespace kiln {

/// A rank that others have lost. It is not the first rank that tells about it.
class LostRankError : public ErrorInfo<LostRankError, DiagnosticError> {
public:
  static char ID;
  LostRankError(std::vector<Diagnostic> diagnostics, std::optional<int64_t> teller)
      : ErrorInfo(std::move(diagnostics)), teller(teller) {}

  const std::optional<int64_t> teller; ///< as of RankFailure
};

/// Why a rank has failed, as all ranks know it.
struct RankFailure {
  std::vector<Diagnostic> diagnostics = {};
  /// The rank whose process tells its user. None: the process that watches the ranks knows more, if there is one.
  std::optional<int64_t> teller = 0;

  static RankFailure of(const Twine &message, std::optional<int64_t> teller = 0);
  /// What toMessage() has made.
  static RankFailure read(const RankMessage &message);

  RankMessage toMessage() const;
  Error toError() const;
};

} // namespace kiln
