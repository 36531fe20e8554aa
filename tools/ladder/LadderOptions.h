//===- LadderOptions.h - the options of kiln bench ladder -----------------===//
#pragma once

#include "tools/session/ModelOptions.h"

#include "runtime/measure/Benchmark.h"

namespace kiln {

struct LadderOptions {
  std::string model;
  WeightOptions weights;
  std::vector<std::string> parts; ///< empty: all
  BenchmarkOptions options = {.mostSeconds = 0.5};
  std::string target = "sm_90a";
  std::string scored, text;              ///< a directory and a file, for perplexities; both or none
  std::string device = "auto";           ///< --device, one or several
  std::vector<std::string> devices = {}; ///< as resolved, with kernels; parts for one device use the first
  std::string format = "md";
  std::string page; ///< where to write the HTML page; empty: nowhere
  bool quiet = false;
};

} // namespace kiln
