#include "Table.h"

#include "support/Version.h"

namespace kiln {

namespace {

constexpr StringRef none = "–";

/// What is shown only where a device's times mean something.
std::string timed(bool isTimed, const std::string &text) { return isTimed ? text : none.str(); }

std::string ratio(double other, double own) { return formatv("{0:F2}", other / own).str(); }

std::vector<std::string> cellsOf(const MeasuredPart &measured, size_t i) {
  const RungResult &own = measured.results[i], &first = measured.results.front();
  const Rung &rung = measured.part->rungs[i];
  double seconds = own.median();
  bool isTimed = seconds > 0, hasBelow = i > 0 && measured.results[i - 1].median() > 0;
  bool hasCounts = own.bytes > 0;
  return {
      rung.name.str(),
      timed(isTimed, formatv("{0:F1}", seconds * 1e6)),
      timed(isTimed && hasBelow, hasBelow ? ratio(measured.results[i - 1].median(), seconds) : ""),
      timed(isTimed && first.median() > 0, ratio(first.median(), seconds)),
      timed(own.callSeconds > 0, formatv("{0:F1}", own.callSeconds * 1e6)),
      hasCounts ? formatv("{0:F1}", static_cast<double>(own.bytes) * 1e-6).str() : none.str(),
      hasCounts ? formatv("{0:F2}", static_cast<double>(own.flops) * 1e-9).str() : none.str(),
      timed(isTimed && hasCounts, formatv("{0:F0} %", 100 * own.limitSeconds / seconds)),
      own.kernel.empty() ? none.str() : std::to_string(own.resources.registers),
      own.kernel.empty() ? none.str() : formatv("{0:F1}", static_cast<double>(own.sharedBytes) / 1024).str(),
      own.kernel.empty() ? none.str() : formatv("{0:F0} %", own.occupancy * 100).str(),
      own.failure.empty() ? formatv("{0:E1}", own.error.largest).str() : none.str(),
      own.failure.empty() ? formatv("{0:E1}", own.error.rootMeanSquare).str() : none.str(),
      own.perplexity ? formatv("{0:F3}", *own.perplexity).str() : none.str(),
  };
}

/// What would end a cell of a Markdown table.
std::string inCell(std::string text) {
  for (char &c : text)
    c = c == '|' ? '/' : c == '\n' ? ' ' : c;
  return text;
}

void printPart(raw_ostream &os, const MeasuredPart &measured) {
  os << "## " << measured.part->title << "\n\n" << measured.part->about << "\n\n";
  os << "| rung | µs | over below | over first | whole pass µs | MB | GFLOP | of the limit | registers | shared KB | "
        "occupancy | max error | RMSE | perplexity |\n";
  os << "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (size_t i = 0; i < measured.results.size(); ++i)
    os << "| " << llvm::join(llvm::map_range(cellsOf(measured, i), inCell), " | ") << " |\n";
  os << '\n';
  for (size_t i = 0; i < measured.results.size(); ++i)
    if (std::string note = measured.note(i); !note.empty())
      os << "- " << measured.part->rungs[i].name << ": " << note << '\n';
  os << '\n';
}

json::Object toJson(const MeasuredPart &measured, size_t i) {
  const RungResult &own = measured.results[i];
  const Rung &rung = measured.part->rungs[i];
  json::Object object{{"rung", rung.name},
                      {"strategy", measured.part->strategyOf(rung)},
                      {"note", measured.note(i)},
                      {"is_right", !own.isWrong()}};
  if (!own.failure.empty())
    return object;
  object["max_error"] = own.error.largest;
  object["rmse"] = own.error.rootMeanSquare;
  object["allowed_error"] = own.error.allowed;
  object["launches"] = own.launches;
  object["bytes"] = own.bytes;
  object["flops"] = own.flops;
  object["limit_us"] = own.limitSeconds * 1e6;
  if (own.perplexity)
    object["perplexity"] = *own.perplexity;
  if (!own.seconds.empty()) {
    object["median_us"] = own.median() * 1e6;
    object["samples_s"] = json::Array(own.seconds);
  }
  if (own.callSeconds > 0)
    object["whole_pass_us"] = own.callSeconds * 1e6;
  if (!own.kernel.empty())
    object["kernel"] = json::Object{{"name", own.kernel},
                                    {"registers", own.resources.registers},
                                    {"shared_bytes", own.sharedBytes},
                                    {"occupancy", own.occupancy}};
  return object;
}

} // namespace

void printLadderMarkdown(raw_ostream &os, StringRef device, StringRef model, ArrayRef<MeasuredPart> parts) {
  os << "# The ladder of " << model << " on " << device << "\n\n";
  for (const MeasuredPart &measured : parts)
    printPart(os, measured);
}

void printLadderJson(raw_ostream &os, StringRef device, StringRef model, ArrayRef<MeasuredPart> parts) {
  json::Array list;
  for (const MeasuredPart &measured : parts) {
    json::Array rungs;
    for (size_t i = 0; i < measured.results.size(); ++i)
      rungs.push_back(toJson(measured, i));
    list.push_back(json::Object{{"part", measured.part->name},
                                {"title", measured.part->title},
                                {"batch", measured.part->batch},
                                {"length", measured.part->length},
                                {"rungs", std::move(rungs)}});
  }
  os << json::Value(json::Object{
            {"device", device}, {"model", model}, {"compiler", compilerVersion}, {"parts", std::move(list)}})
     << '\n';
}

} // namespace kiln
