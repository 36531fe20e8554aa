//===- RooflinePicture.h - operations per byte against operations per second -===//
#pragma once

#include "tools/report/Html.h"

#include "kernels/targets/Target.h"

namespace kiln {

/// A limit by the rate of some arithmetic and of a memory.
struct Roof {
  std::string side; ///< its colour: a or b
  double peak = 0, memoryRate = 0;
  std::string label; ///< empty: none
};

struct RooflineDot {
  std::string name, link, side; ///< link: of what it stands for, or empty
  double intensity = 0;         ///< operations per byte
  double limit = 0;             ///< operations per second that the roofline allows
  std::optional<double> reached;
};

/// A picture, both axes logarithmic.
void drawRoofline(Html &html, ArrayRef<Roof> roofs, ArrayRef<RooflineDot> dots);

/// `NVIDIA H200: 67.0 TFLOP/s f32, 4.80 TB/s`
std::string rooflineLabel(const Target &target, double peak, StringRef what);

} // namespace kiln
