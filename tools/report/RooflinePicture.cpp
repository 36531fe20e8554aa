#include "tools/report/RooflinePicture.h"

#include <cmath>

namespace kiln {

namespace {

/// A log-log picture: operations per byte to the right, operations per second upwards.
class RooflinePicture {
public:
  RooflinePicture(Html &html, ArrayRef<Roof> roofs, ArrayRef<RooflineDot> dots) : html(html), roofs(roofs), dots(dots) {
    for (const RooflineDot &dot : dots) {
      include(x0, x1, dot.intensity);
      include(y0, y1, dot.limit);
      if (dot.reached)
        include(y0, y1, *dot.reached);
    }
    for (const Roof &roof : roofs) {
      include(x0, x1, roof.peak / roof.memoryRate);
      include(y0, y1, roof.peak);
    }
    ++y1;
  }

  void draw() {
    auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
    auto svg = html.in("svg", {{"role", "group"},
                               {"aria-label", "Roofline: operations per byte against operations per second"},
                               {"viewBox", "0 0 640 360"}});
    drawGrid();
    for (const Roof &roof : roofs)
      drawRoof(roof);
    for (const RooflineDot &dot : dots)
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

  void drawRoof(const Roof &roof) {
    double ridge = roof.peak / roof.memoryRate;
    // The slope begins where it enters the picture.
    double start = std::max(std::pow(10, x0), std::pow(10, y0) / roof.memoryRate);
    html.element("polyline", {{"class", "roof side-" + roof.side},
                              {"points", coordinate(xOf(start)) + "," + coordinate(yOf(start * roof.memoryRate)) + " " +
                                             coordinate(xOf(ridge)) + "," + coordinate(yOf(roof.peak)) + " " +
                                             coordinate(right) + "," + coordinate(yOf(roof.peak))}});
    if (!roof.label.empty())
      drawText(html, "label", right, yOf(roof.peak) - 9, roof.label);
  }

  void drawDot(const RooflineDot &dot) {
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
  ArrayRef<Roof> roofs;
  ArrayRef<RooflineDot> dots;
  int x0 = 0, x1 = 1, y0 = 12, y1 = 12; ///< decades
};

} // namespace

void drawRoofline(Html &html, ArrayRef<Roof> roofs, ArrayRef<RooflineDot> dots) {
  RooflinePicture(html, roofs, dots).draw();
}

std::string rooflineLabel(const Target &target, double peak, StringRef what) {
  return formatv("{0}: {1:F1} TFLOP/s {2}, {3:F2} TB/s", target.device, peak * 1e-12, what, target.memoryRate * 1e-12);
}

} // namespace kiln
