//===- LogitEditor.h - penalties and biases of tokens ----------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Changes of logits before a token is chosen, in this order.
struct LogitOptions {
  /// Logits of tokens that the text has, the prompt's included, are divided by it if they are positive, and multiplied
  /// with it if not (Keskar et al. 2019). 1: off.
  double repetitionPenalty = 1;
  double presencePenalty = 0;    ///< subtracted from the logits of tokens that the new text has
  std::map<int32_t, float> bias; ///< added to the logits of these tokens

  bool isOff() const { return repetitionPenalty == 1 && presencePenalty == 0 && bias.empty(); }
};

/// Edits the logits of one text.
class LogitEditor {
public:
  LogitEditor(const LogitOptions &options, ArrayRef<int32_t> prompt, ArrayRef<int32_t> newTokens);

  /// The text goes on with a new token.
  void add(int32_t token);

  /// The logits with which the next token is chosen; biased ids are ids of the logits.
  std::vector<float> edit(ArrayRef<float> logits) const;

private:
  LogitOptions options;
  std::set<int32_t> all, added; ///< tokens of the text, and of its new part
};

} // namespace kiln
