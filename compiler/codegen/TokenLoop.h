//===- TokenLoop.h - how @generate is made of @decode ---------------------===//
#pragma once

#include "codegen/KernelText.h"
#include "codegen/SamplingFunctions.h"
#include "ir/IR.h"
#include "plan/Plan.h"

namespace kiln {

/// @generate: the one kernel that @decode is, in a loop over tokens, which it chooses itself.
class TokenLoop {
public:
  /// Of a plan that has everything but @generate and @sample. None where @decode is not one kernel of the family
  /// decode_layers, where that has no room for sampling, and where IR text has other names for what @sample shares.
  /// Error: a target that nobody knows.
  static Expected<std::optional<TokenLoop>> of(const Module &module, const Plan &plan);

  /// The op that is all of @decode.
  const Op &op() const { return *decode; }
  /// The kernel that does what `choice`, one of the op's, does for a token. Error: as of writeGenerateKernel.
  Expected<WrittenKernel> write(const KernelChoice &choice) const;
  /// The arguments of @sample, and scratch.
  std::vector<PlanTensor> arguments(const Plan &plan) const;

private:
  TokenLoop(const Op &decode, const Target &target, SamplingParts parts)
      : decode(&decode), target(&target), parts(std::move(parts)) {}

  const Op *decode;
  const Target *target;
  SamplingParts parts;
};

} // namespace kiln
