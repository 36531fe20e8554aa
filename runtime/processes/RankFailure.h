//===- RankFailure.h - why a rank has failed ------------------------------===//
#pragma once

#include "runtime/processes/RankSocket.h"
#include "support/Diagnostic.h"

namespace kiln {

/// The process of a rank has ended without a message.
class LostRankError : public ErrorInfo<LostRankError, DiagnosticError> {
public:
  static char ID;
  using ErrorInfo::ErrorInfo;
};

/// Why a rank has failed, as all ranks know it.
struct RankFailure {
  std::vector<Diagnostic> diagnostics = {};
  bool isLost = false; ///< its process has ended without a message

  static RankFailure of(const Twine &message, bool isLost = false);
  /// What toMessage() has made.
  static RankFailure read(const RankMessage &message);

  RankMessage toMessage() const;
  Error toError() const;
};

} // namespace kiln
