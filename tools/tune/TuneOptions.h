//===- TuneOptions.h - the options of kiln tune ---------------------------===//
#pragma once

#include "tools/session/ModelOptions.h"

#include "runtime/measure/Benchmark.h"

namespace kiln {

struct TuneOptions {
  std::string model;
  PipelineChoices pipeline;
  std::string target = "sm_90a";
  std::string tuning = "none"; ///< what trials start from, as openTuning takes it
  std::vector<Entry> entries = {Entry::Prefill, Entry::Decode};
  std::vector<int64_t> batches = {1, 8};
  std::vector<int64_t> lengths = {64, 256, 1024};
  double mostOfBest = 2;
  size_t mostTrials = 1000;      ///< per problem
  std::vector<std::string> only; ///< parts of the names of the problems to measure; empty: all
  bool inCalls = false;          ///< time trials within whole calls, not their kernels alone
  BenchmarkOptions options = {.samples = 10, .warmUp = 3};
  std::string device = "auto"; ///< for Tuner one with kernels: emulate, cuda:N
  std::string output;
  std::string page; ///< where to write the HTML page; empty: nowhere
  bool quiet = false;
};

} // namespace kiln
