#include "tools/ladder/Table.h"

#include "tools/ladder/Columns.h"

#include "runtime/measure/Benchmark.h"
#include "support/Version.h"
#include "support/text/Json.h"
#include "support/text/Markdown.h"

namespace kiln {

namespace {

void printPart(raw_ostream &os, const MeasuredPart &measured) {
  os << "## " << measured.part->heading() << "\n\n" << measured.part->about << "\n\n";
  std::vector<std::string> names = {"rung"};
  for (const Column &column : ladderColumns())
    names.push_back(column.name.str());
  printTableRow(os, names);
  os << '|';
  for (size_t i = 0; i < names.size(); ++i)
    os << "---|";
  os << '\n';
  for (size_t i = 0; i < measured.results.size(); ++i) {
    std::vector<std::string> cells = {measured.part->rungs[i].name.str()};
    for (const Column &column : ladderColumns()) {
      std::string text = column.text(measured, i);
      cells.push_back(text.empty() ? "–" : text);
    }
    printTableRow(os, cells);
  }
  bool hasNotes = false;
  for (size_t i = 0; i < measured.results.size(); ++i)
    if (std::string note = measured.note(i); !note.empty()) {
      os << (hasNotes ? "" : "\n") << "- " << measured.part->rungs[i].name << ": " << note << '\n';
      hasNotes = true;
    }
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
  object["bytes"] = own.cost.bytes;
  object["flops"] = own.cost.flops;
  object["limit_us"] = jsonQuantity(own.limitSeconds * 1e6);
  if (own.perplexity)
    object["perplexity"] = *own.perplexity;
  addTimes(object, own.seconds);
  if (!own.callSamples.empty()) {
    object["whole_pass_us"] = jsonQuantity(medianOf(own.callSamples) * 1e6);
    object["whole_pass_samples_s"] = json::Array(llvm::map_range(own.callSamples, jsonQuantity));
  }
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
                                {"title", measured.part->heading()},
                                {"batch", measured.part->batch},
                                {"length", measured.part->length},
                                {"rungs", std::move(rungs)}});
  }
  os << jsonText(json::Object{
            {"device", device}, {"model", model}, {"compiler", compilerVersion}, {"parts", std::move(list)}})
     << '\n';
}

} // namespace kiln
