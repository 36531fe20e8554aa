#include "Commands.h"
#include "Engine.h"

#include "kernels/Target.h"
#include "runtime/Benchmark.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace {

/// A measured line with the time that its bytes and operations would take at the target's rates.
struct BenchRow {
  Measurement measurement;
  double rooflineSeconds = 0;
};

double roofline(const Measurement &measurement, const Target &target, DType dtype) {
  double rate = dtype == DType::F32 ? target.f32Rate : std::max(target.f32Rate, target.tensorRate);
  return std::max(static_cast<double>(measurement.bytes) / target.memoryRate, static_cast<double>(measurement.flops) / rate);
}

void printMarkdown(raw_ostream &os, ArrayRef<BenchRow> rows) {
  double all = 0;
  for (const BenchRow &row : rows)
    all += row.measurement.median();
  os << "| what | launches | time (µs) | share | TB/s | TFLOP/s | roofline (µs) |\n|---|---|---|---|---|---|---|\n";
  for (const BenchRow &row : rows) {
    const Measurement &m = row.measurement;
    double seconds = m.median();
    os << "| " << m.what << " | " << m.launches << " | ";
    if (seconds > 0)
      os << formatv("{0:F2} | {1:F1} % | {2:F3} | {3:F2} | ", seconds * 1e6, 100 * seconds / all,
                    static_cast<double>(m.bytes) / seconds * 1e-12, static_cast<double>(m.flops) / seconds * 1e-12);
    else
      os << "- | - | - | - | ";
    os << formatv("{0:F2} |\n", row.rooflineSeconds * 1e6);
  }
}

void printCsv(raw_ostream &os, ArrayRef<BenchRow> rows) {
  os << "what,launches,bytes,flops,roofline_us,median_us\n";
  for (const BenchRow &row : rows)
    os << formatv("{0},{1},{2},{3},{4:F3},{5:F3}\n", row.measurement.what, row.measurement.launches, row.measurement.bytes,
                  row.measurement.flops, row.rooflineSeconds * 1e6, row.measurement.median() * 1e6);
}

void printJson(raw_ostream &os, ArrayRef<BenchRow> rows, StringRef device, const Plan &plan) {
  json::Array list;
  for (const BenchRow &row : rows) {
    const Measurement &m = row.measurement;
    list.push_back(json::Object{{"what", m.what},
                                {"launches", m.launches},
                                {"bytes", m.bytes},
                                {"flops", m.flops},
                                {"roofline_us", row.rooflineSeconds * 1e6},
                                {"median_us", m.median() * 1e6},
                                {"samples_s", json::Array(m.seconds)}});
  }
  os << json::Value(json::Object{{"device", device},
                                 {"model", plan.model.name},
                                 {"target", plan.target},
                                 {"dtype", dtypeName(plan.dtype)},
                                 {"compiler", plan.compilerVersion},
                                 {"nvrtc", plan.nvrtcVersion},
                                 {"rows", std::move(list)}})
     << '\n';
}

/// What --what asks for, at one batch and length.
Error measureOne(const BenchCommand &command, Executor &executor, const Target &target, int64_t batch, int64_t length,
                 std::vector<BenchRow> &rows) {
  bool isDecode = command.what != "prefill" && command.of != "prefill";
  std::string function = isDecode ? "decode" : "prefill";
  int64_t tokens = isDecode ? 1 : length, position = isDecode ? length : 0;
  std::vector<Measurement> measured;
  if (command.what == "kernels") {
    auto kernels = measureKernels(executor, function, batch, tokens, position, command.options);
    if (!kernels)
      return kernels.takeError();
    measured = std::move(*kernels);
    llvm::stable_sort(measured, [](const Measurement &a, const Measurement &b) { return a.median() > b.median(); });
  } else {
    auto call = measureCall(executor, function, batch, tokens, position, command.options);
    if (!call)
      return call.takeError();
    call->what = formatv("{0} B={1} {2}={3}", function, batch, isDecode ? "position" : "T", length).str();
    measured.push_back(std::move(*call));
  }
  for (Measurement &measurement : measured) {
    double bound = roofline(measurement, target, executor.plan().dtype);
    rows.push_back({std::move(measurement), bound});
  }
  return Error::success();
}

} // namespace

Error run(const BenchCommand &command) {
  int64_t batch = *std::max_element(command.batches.begin(), command.batches.end());
  Expected<ModelSource> source = openModel(command.model, command.weights, batch, command.dtype);
  if (!source)
    return source.takeError();
  if (command.device == "cpu")
    return makeError("kiln bench: expected --device emulate or cuda:N; the reference executor has no plan");
  auto engine = openEngine(*source, {command.device == "auto" ? "cuda:0" : command.device, batch, {"prefill", "decode"}, false});
  if (!engine)
    return engine.takeError();
  Executor &executor = *(*engine)->executor();
  Expected<const Target *> target = findTarget(executor.plan().target);
  if (!target)
    return target.takeError();
  std::vector<BenchRow> rows;
  for (int64_t size : command.batches)
    for (int64_t length : command.lengths)
      if (Error error = measureOne(command, executor, **target, size, length, rows))
        return error;
  if (command.format == "json")
    printJson(llvm::outs(), rows, executor.device().name(), executor.plan());
  else if (command.format == "csv")
    printCsv(llvm::outs(), rows);
  else
    printMarkdown(llvm::outs() << executor.plan().model.name << ", " << dtypeName(executor.plan().dtype) << ", on "
                               << executor.device().name() << "\n\n",
                  rows);
  return Error::success();
}

} // namespace kiln
