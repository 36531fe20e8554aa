#include "api/Functions.h"
#include "api/Json.h"

#include "ir/Parser.h"
#include "ops/OpTable.h"

struct KilnText {
  std::string text;
};

namespace kiln::api {

/// The description as a handle for the caller.
template <class Described> static KilnText *toText(const Described &described) {
  auto made = std::make_unique<KilnText>();
  llvm::raw_string_ostream os(made->text);
  json::OStream out(os);
  writeJson(out, described);
  return made.release();
}

static Error clear(KilnText **json) {
  if (Error error = expectGiven(json, "json"))
    return error;
  *json = nullptr;
  return Error::success();
}

/// A size that may be left out as 0.
static Expected<std::optional<int64_t>> optionalSize(StringRef name, int64_t size) {
  if (size < 0)
    return makeMisuse(name + ": expected 1 or more, or 0 for the default, got " + Twine(size));
  return size == 0 ? std::nullopt : std::optional(size);
}

KilnError *describePlan(const char *directory, const KilnPlanOptions *given, KilnText **json) noexcept {
  return guarded([&]() -> Error {
    if (Error error = clear(json))
      return error;
    if (Error error = expectGiven(directory, "directory"))
      return error;
    Expected<KilnPlanOptions> options = readOptions(given, KILN_PLAN_OPTIONS, "KILN_PLAN_OPTIONS");
    if (!options)
      return options.takeError();
    ReportRequest request;
    request.plan = directory;
    request.profile = optionalText(options->profile).value_or("");
    if (Error error = optionalSize("batch", options->batch).moveInto(request.batch))
      return error;
    if (Error error = optionalSize("length", options->length).moveInto(request.length))
      return error;
    auto reported = readReportedPlan(request);
    if (!reported)
      return reported.takeError();
    *json = toText(**reported);
    return Error::success();
  });
}

KilnError *describeIr(const char *name, const char *text, size_t length, KilnText **json) noexcept {
  return guarded([&]() -> Error {
    if (Error error = clear(json))
      return error;
    if (Error error = expectGiven(name, "name"))
      return error;
    if (Error error = expectArray(text, length, "text"))
      return error;
    SourceManager sources;
    auto module = parseModule(sources.add(name, std::string(text, length)), sources, opTable());
    if (!module)
      return module.takeError();
    *json = toText(**module);
    return Error::success();
  });
}

const char *textData(const KilnText *text, size_t *length) noexcept {
  if (length)
    *length = text ? text->text.size() : 0;
  return text ? text->text.c_str() : "";
}

void releaseText(KilnText *text) noexcept { delete text; }

} // namespace kiln::api
