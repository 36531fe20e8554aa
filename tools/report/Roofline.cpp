#include "tools/report/RooflinePicture.h"
#include "tools/report/Sections.h"

namespace kiln {

namespace {

void addDots(std::vector<RooflineDot> &dots, const Side &side) {
  for (const FunctionUse &use : side.reported.functions)
    for (const KernelUse &kernel : use.kernels) {
      if (kernel.count.cost.flops == 0 || kernel.count.cost.bytes == 0)
        continue;
      auto flops = static_cast<double>(kernel.count.cost.flops);
      RooflineDot dot;
      dot.name = kernel.count.what + " in @" + use.function->name;
      dot.link = side.reported.plan.findKernel(kernel.count.what) ? "#" + side.kernelId(kernel.count.what) : "";
      dot.side = side.id;
      dot.intensity = flops / static_cast<double>(kernel.count.cost.bytes);
      dot.limit = flops / kernel.rooflineSeconds;
      if (kernel.seconds)
        dot.reached = flops / *kernel.seconds;
      dots.push_back(std::move(dot));
    }
}

std::vector<Roof> roofsOf(ArrayRef<Side> sides) {
  std::vector<Roof> roofs;
  for (const Side &side : sides) {
    const Target &target = *side.reported.target;
    DType dtype = side.reported.plan.dtype;
    double peak = target.arithmeticRate(dtype);
    bool isSame = !roofs.empty() && sides[0].reported.target == &target && peak == roofs[0].peak;
    roofs.push_back({side.id, peak, target.memoryRate, isSame ? "" : rooflineLabel(target, peak, dtypeName(dtype))});
  }
  return roofs;
}

} // namespace

void writeRoofline(Html &html, ArrayRef<Side> sides) {
  bool isMeasured = llvm::any_of(sides, [](const Side &side) { return side.reported.profile.has_value(); });
  auto figure = html.in("figure", {{"class", "roofline"}});
  {
    auto caption = html.in("figcaption");
    html.element("strong", {}, "Roofline");
    html.text(
        isMeasured
            ? ": a full dot is what a kernel reached, an empty one or the line's end what bytes and operations allow"
            : ": a dot is what bytes and operations allow a kernel; with a profile, what it reached too");
    for (const Side &side : sides)
      if (sides.size() > 1)
        html.element("span", {{"class", "legend side-" + side.id}}, side.letter() + ": " + side.label);
  }
  std::vector<RooflineDot> dots;
  for (const Side &side : sides)
    addDots(dots, side);
  drawRoofline(html, roofsOf(sides), dots);
}

} // namespace kiln
