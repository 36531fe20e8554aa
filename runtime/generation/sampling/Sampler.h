//===- Sampler.h - choosing the next token ----------------------------------===//
//
// In the order of Hugging Face transformers: temperature, then top-k, then top-p, then min-p, then a draw from what is
// left.
//
// - top-k keeps exactly k tokens; among equal logits the lower ids stay, so that top-k 1 is greedy.
// - top-p (Holtzman et al. 2020) keeps the most probable tokens up to and including the one with which their sum
//   reaches p: the token that crosses the threshold is kept.
// - min-p (Nguyen et al. 2024) keeps the tokens that are at least p times as probable as the most probable one.
// - The draw is the token with the largest logit / temperature + noise, or the lowest id of several. The noise is
// Gumbel's,
//   and depends on seed, sequence, position and id alone (templates/sample/noise.cuh). So what a row chooses depends on
//   its own logits, its sequence and its position, and not on its neighbours in the batch; nor on whether its text so
//   far was generated, guessed or given.
//
// The arithmetic is that of templates/sample/choice.cuh, which the device's kernel uses too: both choose the same token
// from the same logits.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

struct SamplingParams {
  bool greedy = false; ///< the most probable token; the parameters below are then not used
  double temperature = 1;
  int64_t topK = 0; ///< 0: off
  double topP = 1;  ///< 1: off
  double minP = 0;  ///< 0: off
  uint64_t seed = 0;
};

/// Error, naming the flag: a temperature not above 0 or not finite, a negative top-k, a top-p outside (0, 1], a
/// min-p outside [0, 1].
Error checkSamplingParams(const SamplingParams &params);

/// The most probable token; the lowest id among equals. Error: a logit that is NaN or +infinity, all of them
/// -infinity, or none at all.
Expected<int32_t> argmax(ArrayRef<float> logits);

/// The values that the arithmetic uses in place of a temperature, of a top-p (0: off), and of a min-p.
float samplingScale(const SamplingParams &params);
uint64_t samplingTopP(const SamplingParams &params);
uint32_t samplingMostExponent(const SamplingParams &params);

/// Chooses tokens by parameters that checkSamplingParams accepts. Threads must not share one: it reuses memory for its
/// candidates.
class Sampler {
public:
  explicit Sampler(const SamplingParams &params);

  /// Replaces the parameters.
  void setParams(const SamplingParams &chosen);

  /// The token of a sequence behind `position` others. `sequence` is the index of its prompt in the job; both are
  /// counted from 0. Errors as of argmax.
  Expected<int32_t> choose(ArrayRef<float> logits, uint64_t sequence, uint64_t position);

private:
  struct Candidate {
    int32_t id;
    float logit;
    uint64_t weight; ///< in proportion to the probability
  };

  static bool isMoreProbable(const Candidate &a, const Candidate &b);
  void keepTopK();
  void keepTopP(float largest);
  int32_t draw(float largest, uint64_t sequence, uint64_t position) const;

  SamplingParams params;
  float scale;           ///< in the form that tokenExponent takes
  uint64_t topPUnits;    ///< top-p in units of 2^-64
  uint32_t mostExponent; ///< of min-p
  std::vector<Candidate> candidates;
};

} // namespace kiln
