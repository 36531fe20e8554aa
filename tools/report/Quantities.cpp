#include "tools/report/Sections.h"

#include "support/text/Number.h"

#include <cmath>

namespace kiln {

/// Three digits and a prefix: 12.6 M.
static std::string scaled(double value) {
  static constexpr std::pair<double, StringRef> prefixes[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
  for (auto [factor, prefix] : prefixes)
    if (value >= factor || factor == 1) {
      double digits = value / factor;
      int decimals = prefix.empty() || digits >= 100 ? 0 : digits >= 10 ? 1 : 2;
      std::string text = decimals == 0   ? formatv("{0:F0}", digits).str()
                         : decimals == 1 ? formatv("{0:F1}", digits).str()
                                         : formatv("{0:F2}", digits).str();
      return text + " " + prefix.str();
    }
  return "";
}

std::string bytesText(int64_t bytes) { return scaled(static_cast<double>(bytes)) + "B"; }

void writeBytes(Html &html, int64_t bytes) {
  html.element("data", {{"value", std::to_string(bytes)}}, bytesText(bytes));
}

void writeCount(Html &html, double count, StringRef unit) {
  html.element("data", {{"value", numberText(count)}}, StringRef(scaled(count) + unit.str()).rtrim());
}

void writeMicroseconds(Html &html, std::optional<double> seconds) {
  if (!seconds)
    html.text("–");
  else
    html.element("data", {{"value", numberText(*seconds * 1e6)}}, formatv("{0:F2}", *seconds * 1e6).str());
}

void writePercent(Html &html, std::optional<double> share) {
  if (!share) {
    html.text("–");
    return;
  }
  std::string width = "width:" + coordinate(std::min(100.0, *share * 100)) + "%";
  html.element("data", {{"value", numberText(*share)}}, formatv("{0:F0} %", *share * 100).str());
  auto bar = html.in("span", {{"class", "bar"}, {"aria-hidden", "true"}});
  html.element("span", {{"style", width}});
}

std::optional<double> shareOfLimit(const KernelUse &use) {
  return use.seconds ? std::optional(use.rooflineSeconds / *use.seconds) : std::nullopt;
}

void writeDifference(Html &html, double first, double second) {
  if (first == second || first == 0) {
    html.element("td", {{"class", "number same"}}, first == second ? "same" : "–");
    return;
  }
  bool isLess = second < first;
  html.element("td", {{"class", isLess ? "number better" : "number worse"}},
               formatv("{0}{1:F1} %", isLess ? "−" : "+", std::abs(second / first - 1) * 100).str());
}

static void cell(Html &html, function_ref<void()> write) {
  auto scope = html.in("td", {{"class", "number"}});
  write();
}

void writeUse(Html &html, const KernelUse &use, bool isMeasured) {
  html.element("td", {{"class", "number"}}, Twine(use.count.launches));
  cell(html, [&] { writeBytes(html, use.count.cost.bytes); });
  cell(html, [&] { writeCount(html, static_cast<double>(use.count.cost.flops), "FLOP"); });
  cell(html, [&] { writeMicroseconds(html, use.rooflineSeconds); });
  if (!isMeasured)
    return;
  cell(html, [&] { writeMicroseconds(html, use.seconds); });
  cell(html, [&] { writePercent(html, shareOfLimit(use)); });
}

std::vector<StringRef> useColumns(bool isMeasured) {
  std::vector<StringRef> names = {"launches", "bytes", "FLOPs", "roofline µs"};
  if (isMeasured)
    names.insert(names.end(), {"measured µs", "of the limit"});
  return names;
}

} // namespace kiln
