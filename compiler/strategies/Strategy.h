//===- Strategy.h - optimisations by name -----------------------------------===//
//
// `--strategy matmul=tiled,attention=unfused,layernorm=3`. What people do by hand to GPT-2's forward pass, step by
// step, is a table here: a topic, a name, and which options of the one pipeline it sets. A strategy leaves passes out,
// sets their options, or prefers kernels and their configurations; there is no other way through the compiler.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/Pipeline.h"

namespace kiln {

/// A number that a strategy takes: `threads` of elementwise=map{threads=256}.
struct StrategyParameter {
  StringRef name;
  StringRef doc;
  int64_t least = 1, most = 1024;
  std::optional<int64_t> defaultValue = std::nullopt; ///< none: the compiler chooses
};

/// Parameters that were given, or have a default.
using StrategyArguments = std::map<std::string, int64_t, std::less<>>;

struct Strategy {
  StringRef topic;   ///< of which one strategy can be chosen
  StringRef name;    ///< `tiled` of matmul=tiled
  StringRef summary; ///< one line
  void (*apply)(const StrategyArguments &arguments, PipelineOptions &options);
  std::vector<StrategyParameter> parameters = {};
  /// `topic=name` of strategies that contradict this one.
  std::vector<StringRef> excludes = {};
};

/// Every strategy, topic by topic.
ArrayRef<Strategy> allStrategies();

/// Applies a list of strategies to the options, which then say so (PipelineOptions::strategy). Error: text that is no
/// such list, an unknown topic, name or parameter, a value out of bounds, two strategies that exclude each other or
/// have one topic, a precision or a library that the options already say otherwise; at its place in `--strategy`.
Error applyStrategies(StringRef text, PipelineOptions &options);

/// A table of all strategies: name, parameters, summary.
void listStrategies(raw_ostream &os);

} // namespace kiln
