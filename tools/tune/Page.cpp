#include "tools/tune/Page.h"

#include "tools/report/Html.h"
#include "tools/report/Page.h"

#include <cmath>

namespace kiln {

namespace {

std::string microseconds(double seconds) { return formatv("{0:F2}", seconds * 1e6).str(); }

void writeTable(Html &html, ArrayRef<StringRef> names, ArrayRef<std::vector<std::string>> rows) {
  auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
  auto table = html.in("table");
  writeHead(html, names);
  auto body = html.in("tbody");
  for (const std::vector<std::string> &texts : rows) {
    auto row = html.line().in("tr");
    html.element("th", {{"scope", "row"}}, texts.front());
    for (const std::string &text : ArrayRef(texts).drop_front())
      html.element("td", {{"class", "number"}}, text);
  }
}

void writeCalls(Html &html, ArrayRef<CallTimes> calls) {
  auto section = html.in("section", {{"id", "calls"}});
  html.element("h2", {}, "Calls");
  html.element("p", {},
               "A whole call with the first choices, those of the compiler's model or of the database that --tuning "
               "names, and with the chosen ones.");
  std::vector<std::vector<std::string>> rows;
  for (const CallTimes &times : calls)
    rows.push_back({times.call.str(), microseconds(times.firstSeconds), microseconds(times.seconds),
                    formatv("{0:F1} %", (times.firstSeconds / times.seconds - 1) * 100).str()});
  writeTable(html, {"call", "first (µs)", "chosen (µs)", "gain"}, rows);
}

/// A picture of one setting: its values to the right, time over the fastest trial's time upwards, on a logarithmic
/// scale.
class SettingPicture {
public:
  SettingPicture(Html &html, const TuningProblem &problem, const KernelFamily &family, StringRef setting)
      : html(html), problem(problem), setting(setting), fastest(problem.fastest()),
        least(problem.trials[fastest].seconds) {
    for (const auto &[i, trial] : llvm::enumerate(problem.trials)) {
      if (trial.state != Trial::State::Timed || trial.choice.family != &family)
        continue;
      shown.push_back(i);
      values.insert(trial.choice.tile.find(setting)->second.asInt());
      most = std::max(most, trial.seconds / least);
    }
  }

  /// Whether there are several values to compare.
  bool isTelling() const { return values.size() > 1; }

  void draw() {
    auto figure = html.in("figure");
    html.element("figcaption", {}, setting);
    auto svg = html.in(
        "svg",
        {{"role", "img"}, {"aria-label", "Time over the fastest, by " + setting.str()}, {"viewBox", "0 0 240 150"}});
    for (double factor : {1.0, 1.5, 2.0, 3.0, 5.0, 10.0})
      if (factor <= most * 1.05)
        drawGrid(factor);
    for (int64_t value : values)
      drawText(html, "tick", xOf(value), bottom + 16, Twine(value));
    for (size_t i : shown)
      drawTrial(i);
  }

private:
  static constexpr double left = 34, right = 232, top = 8, bottom = 122;

  double xOf(int64_t value) const {
    auto place = static_cast<double>(std::distance(values.begin(), values.find(value)));
    return left + (right - left) * (place + 0.5) / static_cast<double>(values.size());
  }
  double yOf(double factor) const {
    return bottom - 6 - (bottom - top - 12) * std::log(factor) / std::log(std::max(most, 1.2));
  }

  void drawGrid(double factor) {
    drawLine(html, "grid", left, yOf(factor), right, yOf(factor));
    drawText(html, "tick left", left - 5, yOf(factor) + 4, formatv("{0:F1}", factor).str());
  }

  void drawTrial(size_t i) {
    const Trial &trial = problem.trials[i];
    std::string role = i == fastest ? "side-a" : i == 0 ? "side-b" : "";
    // Trials of one value are spread sideways, so that equal ones do not hide each other.
    double x = xOf(trial.choice.tile.find(setting)->second.asInt()) + (static_cast<double>(i * 7 % 11) - 5) * 1.2;
    auto group = html.in("g", {{"class", role}});
    html.element("title", {}, trial.configuration() + ": " + microseconds(trial.seconds) + " µs");
    html.element(
        "circle",
        {{"cx", coordinate(x)}, {"cy", coordinate(yOf(trial.seconds / least))}, {"r", role.empty() ? "2.5" : "4"}});
  }

  Html &html;
  const TuningProblem &problem;
  StringRef setting;
  size_t fastest;
  double least = 0, most = 1;
  std::vector<size_t> shown;
  std::set<int64_t> values;
};

/// Writes the first choice, the chosen trial and the five fastest.
void writeTrials(Html &html, const TuningProblem &problem) {
  std::vector<std::vector<std::string>> rows;
  for (const auto &[rank, i] : llvm::enumerate(problem.ranking())) {
    if (rank >= 5 && i != 0 && i != problem.chosen)
      continue;
    const Trial &trial = problem.trials[i];
    std::string what = i == 0 ? "the first choice" : "";
    if (i == problem.chosen)
      what += what.empty() ? "chosen" : ", chosen";
    rows.push_back({trial.configuration(), std::to_string(rank + 1), microseconds(trial.seconds),
                    microseconds(trial.modelled), what});
  }
  writeTable(html, {"configuration", "rank", "measured (µs)", "modelled (µs)", ""}, rows);
}

/// Writes the trials that were dropped, with the compiler's message or the wrong result.
void writeRejected(Html &html, const TuningProblem &problem) {
  if (llvm::none_of(problem.trials, [](const Trial &trial) { return trial.isRejected(); }))
    return;
  html.element("p", {}, "Dropped:");
  auto list = html.in("dl");
  for (const Trial &trial : problem.trials) {
    if (!trial.isRejected())
      continue;
    html.line().element("dt", {}, trial.configuration() + ", " + trial.stateName());
    auto reason = html.in("dd");
    html.element("pre", {}, trial.reason);
  }
}

void writeProblem(Html &html, const TuningProblem &problem) {
  auto part = html.in("details", {{"class", "part"}});
  const Trial &best = problem.trials[problem.fastest()], &first = problem.trials[0];
  html.element("summary", {},
               problem.name + formatv(", rows {0}: {1} µs, the first choice {2} µs, of {3} trials", problem.bounds(),
                                      microseconds(best.seconds), microseconds(first.seconds), problem.trials.size())
                                  .str());
  writeTrials(html, problem);
  writeRejected(html, problem);
  auto plots = html.in("div", {{"class", "trials"}});
  for (const auto &[setting, value] : best.choice.tile) {
    if (value.kind() != Attribute::Kind::Int)
      continue;
    SettingPicture picture(html, problem, *best.choice.family, setting);
    if (picture.isTelling())
      picture.draw();
  }
}

} // namespace

std::string tuningPage(StringRef title, ArrayRef<CallTimes> calls, ArrayRef<TuningProblem> problems) {
  Html html;
  {
    auto header = html.in("header");
    html.element("h1", {}, title);
  }
  {
    auto main = html.in("main");
    writeCalls(html, calls);
    auto section = html.in("section", {{"id", "problems"}});
    html.element("h2", {}, "Problems");
    {
      auto legend = html.in("p");
      html.text("Times of one launch, or with --in-calls of a whole call. In the plots of the fastest family's "
                "settings a dot is a trial, its height the "
                "time over the fastest one's.");
      html.element("span", {{"class", "legend side-a"}}, "the fastest");
      html.element("span", {{"class", "legend side-b"}}, "the first choice");
    }
    for (const TuningProblem &problem : problems)
      writeProblem(html.line(), problem);
  }
  return htmlPage(title, html.take());
}

} // namespace kiln
