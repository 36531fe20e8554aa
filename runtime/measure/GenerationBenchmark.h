//===- GenerationBenchmark.h - timing a token of generated text -------------===//
#pragma once

#include "runtime/measure/Benchmark.h"

namespace kiln {

/// Bytes and operations of a token, those of @decode and @sample, and the launches of a step, which makes several
/// tokens if the plan has @generate; computed from the plan alone. shape.entry is Entry::Generate. Error: the plan does
/// not have the entries, or cannot run such a call.
Expected<Measurement> countGeneration(const Plan &plan, const CallShape &shape);

/// Times tokens as generation makes them, in steps that decode and choose on the device, greedily: shape.batch
/// sequences at once, behind prompts of shape.length tokens. One run is a token of each sequence. A step of @generate
/// makes several tokens, so that a sample has at least these; the prompts start again with each sample. Error: as of
/// countGeneration; no room for a step's tokens in the context; a model of several ranks; errors of the device.
Expected<Measurement> measureGeneration(Executor &executor, const CallShape &shape, const BenchmarkOptions &options);

} // namespace kiln
