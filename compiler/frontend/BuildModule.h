//===- BuildModule.h - the plain forward pass of a GPT-2 --------------------===//
#pragma once

#include "frontend/ModelConfig.h"
#include "ir/IR.h"

namespace kiln {

struct BuildOptions {
  int64_t maxBatch = 64; ///< upper bound of dim B
  // In place of the model's n_layer and n_positions, to measure parts of a model and prompts beyond its own.
  std::optional<int64_t> layers = {}, positions = {};
};

/// The module of a model, one op per step of the forward pass, in f32, without a KV cache:
///   @prefill(tokens i32[B,T], lengths i32[B]) -> f32[B,1,V]   logits of each sequence's last token
///   @score(tokens i32[B,T], targets i32[B,T]) -> f32[B,T], i32[B,T], f32[B,T]
///     after every token: log-probability of the target, best token, log-probability of that
/// Everything clever is a pass. Ops carry the position of the setting that they follow from, under the file's
/// name without its folders, so that what is generated does not depend on where the model lies.
std::unique_ptr<Module> buildModule(const ModelConfig &config, const BuildOptions &options, SourceManager &sources);

} // namespace kiln
