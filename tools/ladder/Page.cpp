#include "tools/ladder/Page.h"

#include "tools/ladder/Columns.h"

#include "tools/report/Page.h"
#include "tools/report/RooflinePicture.h"
#include "tools/report/Sections.h"

#include <cmath>

namespace kiln {

namespace {

std::string secondsText(double seconds) {
  if (seconds >= 1)
    return formatv("{0:F2} s", seconds);
  return seconds < 1e-3 ? formatv("{0:F1} µs", seconds * 1e6) : formatv("{0:F2} ms", seconds * 1e3);
}

/// `10 µs`, `1 s`
std::string decadeText(double exponent) {
  constexpr StringRef units[] = {"ns", "µs", "ms", "s"};
  int decade = std::clamp(static_cast<int>(exponent) + 9, 0, 11);
  return formatv("{0:F0} {1}", std::pow(10, decade % 3), units[decade / 3]);
}

/// The name of the arithmetic that reaches this rate on the target.
StringRef arithmeticName(const Target &target, double rate) {
  if (rate == target.arithmeticRate(DType::F32))
    return "f32";
  return rate == target.arithmeticRate(DType::F32, /*isRounded=*/true) ? "tf32" : "of 16 bits";
}

/// A bar for each rung. Lengths are logarithms of times, since rungs are decades apart.
class BarPicture {
public:
  BarPicture(Html &html, const MeasuredPart &measured) : html(html), measured(measured) {
    for (const RungResult &result : measured.results)
      if (double seconds = result.median(); seconds > 0) {
        low = std::min(low, seconds);
        high = std::max(high, seconds);
      }
    if (isTelling()) {
      first = std::floor(std::log10(low) - 0.1);
      last = std::ceil(std::log10(high) + 0.1);
    }
  }

  bool isTelling() const { return low <= high; }

  void draw() {
    auto figure = html.in("figure", {{"class", "bars"}});
    html.element("figcaption", {}, "Time of each rung, logarithmic");
    double height = top + rowHeight * static_cast<double>(measured.results.size()) + 20;
    auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
    auto svg = html.in("svg", {{"role", "img"},
                               {"aria-label", "Times of " + measured.part->heading()},
                               {"viewBox", "0 0 640 " + coordinate(height)}});
    for (double decade = first; decade <= last; ++decade)
      drawDecade(decade, height - 20);
    for (size_t i = 0; i < measured.results.size(); ++i)
      drawRung(i);
  }

private:
  static constexpr double left = 250, right = 560, top = 6, rowHeight = 22;

  double xOf(double seconds) const { return left + (right - left) * (std::log10(seconds) - first) / (last - first); }

  void drawDecade(double decade, double bottom) {
    std::string x = coordinate(xOf(std::pow(10, decade)));
    html.element("line",
                 {{"class", "grid"}, {"x1", x}, {"x2", x}, {"y1", coordinate(top)}, {"y2", coordinate(bottom)}});
    html.element("text", {{"class", "tick"}, {"x", x}, {"y", coordinate(bottom + 14)}}, decadeText(decade));
  }

  void drawRung(size_t i) {
    double y = top + rowHeight * static_cast<double>(i), seconds = measured.results[i].median();
    std::string note = measured.note(i);
    auto group = html.in("g", {{"class", note.empty() ? "side-a" : "side-b"}});
    if (!note.empty())
      html.element("title", {}, note);
    html.element("text", {{"class", "name"}, {"x", coordinate(left - 8)}, {"y", coordinate(y + 14)}},
                 measured.part->rungs[i].name);
    if (seconds <= 0)
      return;
    html.element("rect", {{"x", coordinate(left)},
                          {"y", coordinate(y + 3)},
                          {"width", coordinate(std::max(1.0, xOf(seconds) - left))},
                          {"height", coordinate(rowHeight - 7)}});
    html.element("text", {{"class", "value"}, {"x", coordinate(xOf(seconds) + 6)}, {"y", coordinate(y + 14)}},
                 secondsText(seconds));
  }

  Html &html;
  const MeasuredPart &measured;
  double low = INFINITY, high = 0, first = 0, last = 1; ///< seconds; decades
};

class PartSection {
public:
  PartSection(Html &html, const Target &target, const MeasuredPart &measured)
      : html(html), target(target), measured(measured) {}

  void write() {
    auto section = html.line().in("section", {{"id", measured.part->name.str()}});
    html.element("h2", {}, measured.part->heading());
    html.element("p", {}, measured.part->about);
    {
      auto pair = html.in("div", {{"class", "columns"}});
      BarPicture bars(html, measured);
      if (bars.isTelling())
        bars.draw();
      writeRoofline();
    }
    writeTable();
  }

private:
  void writeRoofline() {
    std::vector<RooflineDot> dots;
    std::map<double, Roof> roofs;
    for (const auto &[rung, own] : llvm::zip(measured.part->rungs, measured.results)) {
      if (own.cost.bytes == 0 || own.cost.flops == 0 || own.seconds.empty())
        continue;
      auto flops = static_cast<double>(own.cost.flops);
      dots.push_back({rung.name.str(), "", "a", flops / static_cast<double>(own.cost.bytes), flops / own.limitSeconds,
                      flops / own.median()});
      StringRef name = arithmeticName(target, own.arithmeticRate);
      roofs.insert({own.arithmeticRate,
                    {"a", own.arithmeticRate, target.memoryRate, rooflineLabel(target, own.arithmeticRate, name)}});
    }
    // Each rate is that of the timed kernels only; a whole pass mixes kernels of several rates.
    if (dots.empty() || measured.part->timed != Timed::Steps)
      return;
    auto figure = html.in("figure", {{"class", "roofline"}});
    html.element("figcaption", {},
                 "Roofline: a dot is what a rung reached, its line's end what bytes and operations allow");
    std::vector<Roof> shown;
    for (const auto &[peak, roof] : roofs)
      shown.push_back(roof);
    drawRoofline(html, shown, dots);
  }

  void writeTable() {
    auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
    auto table = html.in("table", {{"class", "ladder"}});
    std::vector<StringRef> names = {"rung"};
    for (const Column &column : ladderColumns())
      names.push_back(column.name);
    writeHead(html, names);
    auto body = html.in("tbody");
    for (size_t i = 0; i < measured.results.size(); ++i)
      writeRung(i);
  }

  void writeRung(size_t i) {
    const RungResult &own = measured.results[i];
    const Rung &rung = measured.part->rungs[i];
    std::string note = measured.note(i);
    {
      auto row = html.line().in("tr");
      {
        auto head = html.in("th", {{"scope", "row"}});
        html.text(rung.name);
        html.element("code", {}, measured.part->strategyOf(rung));
      }
      for (const Column &column : ladderColumns())
        writeCell(column, i);
    }
    if (note.empty())
      return;
    auto row = html.in("tr", {{"class", own.isWrong() ? "note worse" : "note"}});
    html.element("td", {{"colspan", std::to_string(ladderColumns().size() + 1)}}, note);
  }

  void writeCell(const Column &column, size_t i) {
    auto cell = html.in("td", {{"class", "number"}});
    std::string text = column.text(measured, i);
    if (column.isShareOfLimit)
      writePercent(html, measured.results[i].shareOfLimit());
    else
      html.text(text.empty() ? "–" : text);
  }

  Html &html;
  const Target &target;
  const MeasuredPart &measured;
};

} // namespace

std::string ladderPage(StringRef device, StringRef model, const Target &target, ArrayRef<MeasuredPart> parts) {
  Html html;
  std::string title = ("The ladder of " + model + " on " + device).str();
  {
    auto header = html.in("header");
    html.element("h1", {}, title);
    auto nav = html.in("nav");
    for (const MeasuredPart &measured : parts)
      html.element("a", {{"href", "#" + measured.part->name.str()}}, measured.part->heading()).text(" ");
  }
  {
    auto main = html.in("main");
    html.element(
        "p", {},
        "Each rung is a strategy, its kernels this compiler's own. Times are medians; of the kernels of a part "
        "with the L2 cache swept before, of a whole pass as one CUDA graph. Registers, shared memory and "
        "occupancy are of the kernel that takes longest. Errors are those of the logits, against the reference "
        "executor in fp32.");
    for (const MeasuredPart &measured : parts)
      PartSection(html, target, measured).write();
  }
  return htmlPage(title, html.take());
}

} // namespace kiln
