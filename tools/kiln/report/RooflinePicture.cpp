#include "Sections.h"

#include <cmath>

namespace kiln {

namespace {

struct Dot {
  std::string name, link, side;
  double intensity = 0; ///< operations per byte
  double limit = 0;     ///< operations per second that the roofline allows
  std::optional<double> reached;
  double share = 0; ///< of the call's time: measured where all of it is, else by the roofline
};

std::vector<Dot> dotsOf(const Side &side) {
  std::vector<Dot> dots;
  for (const FunctionUse &use : side.reported.functions)
    for (const KernelUse &kernel : use.kernels) {
      if (kernel.count.flops == 0 || kernel.count.bytes == 0)
        continue;
      auto flops = static_cast<double>(kernel.count.flops);
      Dot dot;
      dot.name = kernel.count.what + " in @" + use.function->name;
      dot.link = side.reported.plan.findKernel(kernel.count.what) ? "#" + side.kernelId(kernel.count.what) : "";
      dot.side = side.id;
      dot.intensity = flops / static_cast<double>(kernel.count.bytes);
      dot.limit = flops / kernel.rooflineSeconds;
      if (kernel.seconds)
        dot.reached = flops / *kernel.seconds;
      dots.push_back(std::move(dot));
    }
  return dots;
}

/// Log-log: decades of operations per byte to the right, of operations per second upwards.
class RooflinePicture {
public:
  RooflinePicture(Html &html, ArrayRef<Side> sides) : html(html), sides(sides) {
    for (const Side &side : sides)
      llvm::append_range(dots, dotsOf(side));
    for (const Dot &dot : dots) {
      include(x0, x1, dot.intensity);
      include(y0, y1, dot.limit);
      if (dot.reached)
        include(y0, y1, *dot.reached);
    }
    for (const Side &side : sides) {
      const Target &target = *side.reported.target;
      double peak = target.arithmeticRate(side.reported.plan.dtype);
      include(x0, x1, peak / target.memoryRate);
      include(y0, y1, peak);
    }
    ++y1;
  }

  void draw() {
    auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
    auto svg = html.in("svg", {{"role", "group"},
                               {"aria-label", "Roofline: operations per byte against operations per second"},
                               {"viewBox", "0 0 640 360"}});
    drawGrid();
    for (const auto &[i, side] : llvm::enumerate(sides))
      drawRoof(side, i);
    for (const Dot &dot : dots)
      drawDot(dot);
  }

private:
  static constexpr double left = 46, right = 628, top = 12, bottom = 318;

  static void include(int &low, int &high, double value) {
    low = std::min(low, static_cast<int>(std::floor(std::log10(value))));
    high = std::max(high, static_cast<int>(std::ceil(std::log10(value))));
  }
  double xOf(double intensity) const { return left + (right - left) * (std::log10(intensity) - x0) / (x1 - x0); }
  double yOf(double rate) const { return bottom - (bottom - top) * (std::log10(rate) - y0) / (y1 - y0); }

  static std::string rateText(int decade) {
    static constexpr StringRef units[] = {"", " k", " M", " G", " T", " P", " E"};
    int unit = std::clamp(decade / 3, 0, 6);
    return std::to_string(static_cast<int64_t>(std::pow(10, decade - 3 * unit))) + units[unit].str();
  }

  void drawGrid() {
    for (int decade = x0; decade <= x1; ++decade) {
      double x = xOf(std::pow(10, decade));
      drawLine(html, "grid", x, top, x, bottom);
      drawText(html, "tick", x, bottom + 16,
               decade < 0 ? formatv("{0:F2}", std::pow(10, decade)).str() : rateText(decade));
    }
    for (int decade = y0; decade <= y1; ++decade) {
      double y = yOf(std::pow(10, decade));
      drawLine(html, "grid", left, y, right, y);
      drawText(html, "tick left", left - 6, y + 4, rateText(decade));
    }
    drawText(html, "label", right, bottom + 34, "FLOP / byte");
    drawText(html, "label start", left + 6, top + 12, "FLOP / s");
  }

  void drawRoof(const Side &side, size_t index) {
    const Target &target = *side.reported.target;
    double peak = target.arithmeticRate(side.reported.plan.dtype), ridge = peak / target.memoryRate;
    // The slope begins where it leaves the picture.
    double start = std::max(std::pow(10, x0), std::pow(10, y0) / target.memoryRate);
    html.element("polyline", {{"class", "roof side-" + side.id},
                              {"points", coordinate(xOf(start)) + "," + coordinate(yOf(start * target.memoryRate)) +
                                             " " + coordinate(xOf(ridge)) + "," + coordinate(yOf(peak)) + " " +
                                             coordinate(right) + "," + coordinate(yOf(peak))}});
    bool isSame =
        index > 0 && sides[0].reported.target == &target && peak == target.arithmeticRate(sides[0].reported.plan.dtype);
    if (!isSame)
      drawText(html, "label", right, yOf(peak) - 9,
               formatv("{0}: {1:F1} TFLOP/s {2}, {3:F2} TB/s", target.device, peak * 1e-12,
                       dtypeName(side.reported.plan.dtype), target.memoryRate * 1e-12)
                   .str());
  }

  void drawDot(const Dot &dot) {
    double x = xOf(dot.intensity), y = yOf(dot.limit);
    std::string title =
        formatv("{0}: {1:F2} FLOP/byte, limit {2:F3} TFLOP/s", dot.name, dot.intensity, dot.limit * 1e-12);
    if (dot.reached)
      title +=
          formatv(", reached {0:F3} TFLOP/s, {1:F0} %", *dot.reached * 1e-12, *dot.reached / dot.limit * 100).str();
    auto draw = [&] {
      html.element("title", {}, title);
      if (dot.reached)
        drawLine(html, "stem", x, y, x, yOf(*dot.reached));
      html.element("circle", {{"class", dot.reached ? "reached" : "limit"},
                              {"cx", coordinate(x)},
                              {"cy", coordinate(dot.reached ? yOf(*dot.reached) : y)},
                              {"r", "4"}});
    };
    auto group = html.in("g", {{"class", "dot side-" + dot.side}});
    if (dot.link.empty())
      return draw();
    auto link = html.in("a", {{"href", dot.link}, {"aria-label", title}});
    draw();
  }

  Html &html;
  ArrayRef<Side> sides;
  std::vector<Dot> dots;
  int x0 = 0, x1 = 1, y0 = 12, y1 = 12; ///< decades
};

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
  RooflinePicture(html, sides).draw();
}

} // namespace kiln
