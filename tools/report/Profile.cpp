#include "tools/report/Profile.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/text/ConfigFields.h"

namespace kiln {

const Profile::Row *Profile::find(StringRef function, StringRef kernel, int64_t batch, int64_t length) const {
  auto it = llvm::find_if(rows, [&](const Row &row) {
    return row.function == function && row.kernel == kernel && row.batch == batch && row.length == length;
  });
  return it == rows.end() ? nullptr : &*it;
}

static Error readPhase(const ConfigValue &value, PhaseShare &phase) {
  Fields fields(value, "phase");
  return chain([&] { return fields.text("phase", phase.name); },
               [&] { return fields.number("share", phase.share, 0, 1); });
}

static Error readRow(const ConfigValue &value, Profile::Row &row) {
  Fields fields(value, "row");
  const ConfigValue *median = value.find("median_us");
  if (!median)
    return makeError(value.loc,
                     "row: missing key 'median_us'; expected times that a GPU took, the emulated device only "
                     "counts");
  if ((median->kind != ConfigValue::Kind::Float && median->kind != ConfigValue::Kind::Int) || !(median->real > 0))
    return configError("median_us", *median, "a number above 0");
  row.seconds = median->real * 1e-6;
  return chain([&] { return fields.text("what", row.kernel); }, [&] { return fields.text("function", row.function); },
               [&] { return fields.integer("batch", row.batch, 1); },
               [&] { return fields.integer("length", row.length); },
               [&] { return fields.integer("launches", row.launches, 1); },
               [&] { return fields.optionalEach("phases", row.phases, readPhase); });
}

/// Whether a step of the function launches the kernel for any dims.
static bool launches(const PlanFunction &function, StringRef kernel) {
  return llvm::any_of(function.steps, [&](const PlanStep &step) {
    return llvm::any_of(step.launches(), [&](const PlanLaunch *launch) { return launch->kernel == kernel; });
  });
}

static Error checkRow(const Profile::Row &row, const ConfigValue &value, const Plan &plan) {
  const PlanFunction *function = plan.findFunction(row.function);
  if (!function)
    return makeError(value.loc, "function: expected one of the plan, got '" + row.function + "'");
  if (!launches(*function, row.kernel))
    return makeError(value.loc, "what: expected a kernel of @" + row.function +
                                    ", as kiln bench --what kernels has it, got '" + row.kernel + "'");
  const PlanKernel *kernel = plan.findKernel(row.kernel);
  for (const PhaseShare &phase : row.phases)
    if (!kernel || !llvm::is_contained(kernel->phases, phase.name))
      return makeError(value.loc, "phase: expected one of the kernel's, got '" + phase.name + "'");
  return Error::success();
}

Expected<Profile> readProfile(StringRef path, const Plan &plan) {
  SourceManager sources;
  Expected<std::string> text = readInput(path);
  if (!text)
    return text.takeError();
  Expected<ConfigValue> root = parseJsonConfig(sources.add(path, std::move(*text)));
  if (!root)
    return root.takeError();
  Profile profile;
  std::string hash;
  Fields fields(*root, "profile");
  if (Error error = chain([&] { return fields.text("device", profile.device); },
                          [&] { return fields.text("source_hash", hash); }))
    return error;
  if (hash != plan.sourceHash)
    return makeError(root->find("source_hash")->loc,
                     "source_hash: expected " + plan.sourceHash + ", got " + hash + ": a profile of another plan");
  if (Error error = fields.each("rows", profile.rows, readRow))
    return error;
  const ConfigValue &rows = *root->find("rows");
  if (profile.rows.empty())
    return configError("rows", rows, "a row for each kernel");
  for (const auto &[row, value] : llvm::zip(profile.rows, rows.array))
    if (Error error = checkRow(row, value, plan))
      return error;
  return profile;
}

} // namespace kiln
