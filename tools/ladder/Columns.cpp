#include "tools/ladder/Columns.h"

#include "runtime/measure/Benchmark.h"

namespace kiln {

namespace {

/// The formatted value; empty if it is 0, which means unknown.
std::string known(double value, const char *format) { return value > 0 ? formatv(format, value).str() : ""; }

/// The first over the second; empty if one of them is unknown.
std::string ratio(double over, double under, const char *format) { return known(under > 0 ? over / under : 0, format); }

const RungResult &of(const MeasuredPart &measured, size_t rung) { return measured.results[rung]; }

std::string time(const MeasuredPart &measured, size_t rung) {
  return known(of(measured, rung).median() * 1e6, "{0:F1}");
}

std::string overBelow(const MeasuredPart &measured, size_t rung) {
  return rung == 0 ? "" : ratio(of(measured, rung - 1).median(), of(measured, rung).median(), "{0:F2}");
}

std::string overFirst(const MeasuredPart &measured, size_t rung) {
  return ratio(of(measured, 0).median(), of(measured, rung).median(), "{0:F2}");
}

std::string wholePass(const MeasuredPart &measured, size_t rung) {
  return known(medianOf(of(measured, rung).callSamples) * 1e6, "{0:F1}");
}

std::string megabytes(const MeasuredPart &measured, size_t rung) {
  return known(static_cast<double>(of(measured, rung).cost.bytes) * 1e-6, "{0:F1}");
}

std::string gigaflops(const MeasuredPart &measured, size_t rung) {
  return known(static_cast<double>(of(measured, rung).cost.flops) * 1e-9, "{0:F2}");
}

std::string memoryRate(const MeasuredPart &measured, size_t rung) {
  return ratio(static_cast<double>(of(measured, rung).cost.bytes) * 1e-12, of(measured, rung).median(), "{0:F2}");
}

std::string arithmeticRate(const MeasuredPart &measured, size_t rung) {
  return ratio(static_cast<double>(of(measured, rung).cost.flops) * 1e-12, of(measured, rung).median(), "{0:F1}");
}

std::string shareOfLimit(const MeasuredPart &measured, size_t rung) {
  return known(100 * of(measured, rung).shareOfLimit().value_or(0), "{0:F0} %");
}

std::string registers(const MeasuredPart &measured, size_t rung) {
  return known(of(measured, rung).resources.registers, "{0:F0}");
}

std::string shared(const MeasuredPart &measured, size_t rung) {
  bool hasKernel = !of(measured, rung).kernel.empty();
  return hasKernel ? formatv("{0:F1}", static_cast<double>(of(measured, rung).sharedBytes) / 1024).str() : "";
}

std::string occupancy(const MeasuredPart &measured, size_t rung) {
  return known(100 * of(measured, rung).occupancy, "{0:F0} %");
}

std::string largestError(const MeasuredPart &measured, size_t rung) {
  return of(measured, rung).failure.empty() ? formatv("{0:E1}", of(measured, rung).error.largest).str() : "";
}

std::string rootMeanSquare(const MeasuredPart &measured, size_t rung) {
  return of(measured, rung).failure.empty() ? formatv("{0:E1}", of(measured, rung).error.rootMeanSquare).str() : "";
}

std::string perplexity(const MeasuredPart &measured, size_t rung) {
  return known(of(measured, rung).perplexity.value_or(0), "{0:F3}");
}

} // namespace

ArrayRef<Column> ladderColumns() {
  static constexpr Column columns[] = {
      {"µs", time},
      {"over below", overBelow},
      {"over first", overFirst},
      {"whole pass µs", wholePass},
      {"MB", megabytes},
      {"GFLOP", gigaflops},
      {"TB/s", memoryRate},
      {"TFLOP/s", arithmeticRate},
      {"of the limit", shareOfLimit, /*isShareOfLimit=*/true},
      {"registers", registers},
      {"shared KB", shared},
      {"occupancy", occupancy},
      {"max error", largestError},
      {"RMSE", rootMeanSquare},
      {"perplexity", perplexity},
  };
  return columns;
}

} // namespace kiln
