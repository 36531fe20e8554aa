#include "tools/kiln/Commands.h"
#include "tools/kiln/SpeculationBench.h"
#include "tools/kiln/Tracing.h"
#include "tools/session/Engine.h"
#include "tools/session/UsageError.h"

#include "kernels/targets/Target.h"
#include "runtime/measure/GenerationBenchmark.h"
#include "support/Diagnostic.h"
#include "support/process/Parallel.h"
#include "support/process/Process.h"
#include "support/text/Json.h"

namespace kiln {

namespace {

/// A measured line of a device, with the time that its bytes and operations would take at the target's rates.
struct BenchRow {
  std::string device; ///< as Device::name
  CallShape shape;
  Measurement measurement;
  double rooflineSeconds = 0;
};

/// Prints the table for a device whose times mean nothing.
void printCounts(raw_ostream &os, ArrayRef<BenchRow> rows) {
  os << "| what | launches | bytes | FLOPs | roofline (µs) |\n|---|---|---|---|---|\n";
  for (const BenchRow &row : rows)
    os << formatv("| {0} | {1} | {2} | {3} | {4:F2} |\n", row.measurement.what, row.measurement.launches,
                  row.measurement.cost.bytes, row.measurement.cost.flops, row.rooflineSeconds * 1e6);
}

/// A row of each phase of a kernel, below the kernel's: its share of the kernel's median time.
void printPhases(raw_ostream &os, const Measurement &m, double all) {
  for (const PhaseShare &phase : m.phases)
    os << formatv("| – {0} | | {1:F2} | | | | | {2:F1} % | | | |\n", phase.name, phase.share * m.median() * 1e6,
                  100 * phase.share * m.median() / all);
}

void printMarkdown(raw_ostream &os, ArrayRef<BenchRow> rows) {
  double all = 0;
  for (const BenchRow &row : rows)
    all += row.measurement.median();
  if (!rows.empty() && rows.front().measurement.seconds.empty())
    return printCounts(os, rows);
  os << "| what | launches | time (µs) | min | p90 | p99 | max | share | TB/s | TFLOP/s | roofline (µs) |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const BenchRow &row : rows) {
    const Measurement &m = row.measurement;
    double seconds = m.median();
    os << "| " << m.what << " | " << m.launches << " |";
    for (double share : {0.5, 0.0, 0.9, 0.99, 1.0})
      os << formatv(" {0:F2} |", percentileOf(m.seconds, share) * 1e6);
    os << formatv(" {0:F1} % | {1:F3} | {2:F2} | ", 100 * seconds / all,
                  static_cast<double>(m.cost.bytes) / seconds * 1e-12,
                  static_cast<double>(m.cost.flops) / seconds * 1e-12);
    os << formatv("{0:F2} |\n", row.rooflineSeconds * 1e6);
    printPhases(os, m, all);
  }
}

/// Times are empty if nothing was timed. Phases of a kernel follow it, as KERNEL/PHASE. Rows say which device they are
/// of if there are several.
void printCsv(raw_ostream &os, ArrayRef<BenchRow> rows, bool areOfSeveral) {
  os << (areOfSeveral ? "device," : "")
     << "what,launches,bytes,flops,roofline_us,median_us,min_us,p90_us,p99_us,max_us\n";
  for (const BenchRow &row : rows) {
    const Measurement &m = row.measurement;
    if (areOfSeveral)
      os << row.device << ',';
    os << formatv("{0},{1},{2},{3},{4:F3}", m.what, m.launches, m.cost.bytes, m.cost.flops, row.rooflineSeconds * 1e6);
    for (double share : {0.5, 0.0, 0.9, 0.99, 1.0})
      os << "," << (m.seconds.empty() ? "" : formatv("{0:F3}", percentileOf(m.seconds, share) * 1e6).str());
    os << '\n';
    for (const PhaseShare &phase : m.phases)
      os << (areOfSeveral ? row.device + "," : "")
         << formatv("{0}/{1},,,,,{2:F3},,,,\n", m.what, phase.name, phase.share * m.median() * 1e6);
  }
}

void printJson(raw_ostream &os, ArrayRef<BenchRow> rows, ArrayRef<std::string> devices, const Plan &plan) {
  json::Array list;
  for (const BenchRow &row : rows) {
    const Measurement &m = row.measurement;
    json::Object object{{"what", m.what},           {"function", entryName(row.shape.entry)},
                        {"batch", row.shape.batch}, {"length", row.shape.length},
                        {"launches", m.launches},   {"bytes", m.cost.bytes},
                        {"flops", m.cost.flops},    {"roofline_us", jsonQuantity(row.rooflineSeconds * 1e6)}};
    if (devices.size() > 1)
      object["device"] = row.device;
    addTimes(object, m.seconds);
    if (!m.phases.empty())
      object["phases"] = json::Array(llvm::map_range(m.phases, [](const PhaseShare &phase) -> json::Value {
        return json::Object{{"phase", phase.name}, {"share", jsonQuantity(phase.share)}};
      }));
    list.push_back(std::move(object));
  }
  os << jsonText(json::Object{{"device", llvm::join(devices, ", ")},
                              {"model", plan.model.name},
                              {"target", plan.target},
                              {"dtype", dtypeName(plan.dtype)},
                              {"compiler", plan.compilerVersion},
                              {"nvrtc", plan.nvrtcVersion},
                              {"source_hash", plan.sourceHash},
                              {"rows", std::move(list)}})
     << '\n';
}

Entry entryOf(const BenchCommand &command) { return *findEntry(command.what == "kernels" ? command.of : command.what); }

/// The rows that --what asks for, at one batch and length: measured, or only counted if there is no executor.
Expected<std::vector<Measurement>> measureOne(const BenchCommand &command, const Plan &plan, Executor *executor,
                                              const CallShape &shape) {
  if (command.what == "kernels") {
    auto kernels = executor ? measureKernels(*executor, shape, command.options) : countKernels(plan, shape);
    if (kernels)
      llvm::stable_sort(*kernels, [](const Measurement &a, const Measurement &b) { return a.median() > b.median(); });
    return kernels;
  }
  auto measureShape = shape.entry == Entry::Generate ? measureGeneration : measureCall;
  auto countShape = shape.entry == Entry::Generate ? countGeneration : countCall;
  auto call = executor ? measureShape(*executor, shape, command.options) : countShape(plan, shape);
  if (!call)
    return call.takeError();
  return std::vector<Measurement>{std::move(*call)};
}

/// The lane of a benchmark's samples.
TraceLane laneOf(const BenchCommand &command) {
  if (command.what == "kernels")
    return TraceLane::Kernels;
  return CallShape{entryOf(command)}.continues() ? TraceLane::Decode : TraceLane::Prompts;
}

/// Like measureOne, and makes a span of every sample.
Expected<std::vector<Measurement>> traceOne(BenchCommand command, const Plan &plan, Executor *executor,
                                            const CallShape &shape, Trace *trace) {
  if (trace)
    command.options.onSample = [trace, lane = laneOf(command), call = shape.str()](StringRef what, double seconds) {
      trace->addEnded(lane, what, seconds, json::Object{{"call", call}});
    };
  return traced(trace, TraceLane::Host, "measure " + shape.str(),
                [&] { return measureOne(command, plan, executor, shape); });
}

/// Every batch and length on a device, with its roofline.
Expected<std::vector<BenchRow>> measureAll(const BenchCommand &command, const Plan &plan, Executor *executor,
                                           Trace *trace) {
  const std::string device = executor ? executor->device().name() : "emulate";
  Expected<const Target *> target = findTarget(plan.target);
  if (!target)
    return target.takeError();
  std::vector<BenchRow> rows;
  for (int64_t size : command.batches)
    for (int64_t length : command.lengths) {
      CallShape shape{entryOf(command), size, length};
      auto measured = traceOne(command, plan, executor, shape, trace);
      if (!measured)
        return measured.takeError();
      for (Measurement &measurement : *measured) {
        double bound = (*target)->rooflineSeconds(measurement.cost.bytes, measurement.cost.flops, plan.dtype);
        rows.push_back({device, shape, std::move(measurement), bound});
      }
    }
  return rows;
}

/// Like measureAll on each of some devices, all at the same time.
Expected<std::vector<BenchRow>> measureAll(const BenchCommand &command, ArrayRef<std::unique_ptr<Engine>> engines,
                                           Trace *trace) {
  std::vector<std::vector<BenchRow>> rows(engines.size());
  auto measureOn = [&](size_t i) -> Error {
    Executor &executor = *engines[i]->executor();
    if (Error error = executor.device().makeCurrent())
      return error;
    return measureAll(command, executor.plan(), &executor, trace).moveInto(rows[i]);
  };
  if (Error error = runThreads(engines.size(), measureOn))
    return error;
  std::vector<BenchRow> all;
  for (std::vector<BenchRow> &own : rows)
    llvm::move(own, std::back_inserter(all));
  return all;
}

/// Like measureAll for a model of several ranks, which all measure the same calls at the same time: the rows of the
/// first rank.
Expected<std::vector<BenchRow>> measureRanks(BenchCommand command, Engine &engine) {
  const auto ranks = static_cast<size_t>(engine.executor()->plan().ranks);
  RankAgreement agreement(ranks);
  command.options.agree = [&](double seconds) { return agreement.largest(seconds); };
  std::vector<BenchRow> rows; // of the first rank
  auto measureOn = [&](size_t rank, Executor &executor) -> Error {
    auto own = measureAll(command, executor.plan(), &executor, /*trace=*/nullptr);
    if (!own) {
      agreement.abandon(); // the others may wait for this rank
      return own.takeError();
    }
    if (rank == 0)
      rows = std::move(*own);
    return Error::success();
  };
  if (Error error = engine.onRanks(measureOn))
    return error;
  for (BenchRow &row : rows)
    row.device += " and " + std::to_string(ranks - 1) + " more";
  return rows;
}

Error print(const BenchCommand &command, Expected<std::vector<BenchRow>> rows, const Plan &plan) {
  if (!rows)
    return rows.takeError();
  std::vector<std::string> devices;
  for (const BenchRow &row : *rows)
    if (devices.empty() || devices.back() != row.device)
      devices.push_back(row.device);
  raw_ostream &os = standardOutput();
  if (command.format == "json")
    printJson(os, *rows, devices, plan);
  else if (command.format == "csv")
    printCsv(os, *rows, devices.size() > 1);
  else
    for (const std::string &device : devices) {
      std::vector<BenchRow> own;
      llvm::copy_if(*rows, std::back_inserter(own), [&](const BenchRow &row) { return row.device == device; });
      os << (device == devices.front() ? "" : "\n") << plan.model.name << ", " << dtypeName(plan.dtype) << ", on "
         << device << (devices.size() > 1 ? ", while the others work" : "") << "\n\n";
      printMarkdown(os, own);
    }
  return Error::success();
}

/// Error: a --length that the model's context does not have, or a --batch that a plan is not for.
Error checkSizes(const BenchCommand &command, const ModelSource &source) {
  const int64_t context = source.model().context;
  const CallShape shape{entryOf(command)};
  // In front of a generated token there is one, and behind it there is room for another.
  const bool generates = shape.entry == Entry::Generate;
  const int64_t least = shape.continues() && !generates ? 0 : 1;
  const int64_t most = generates ? context - 2 : shape.continues() ? context - 1 : context;
  for (int64_t length : command.lengths)
    if (length < least || length > most)
      return makeUsageError("--length: expected " + Twine(shape.continues() ? "a position" : "a number of tokens") +
                            " from " + Twine(least) + " to " + Twine(most) + " in the context of " + Twine(context) +
                            ", got " + Twine(length));
  const PlanDim *dim = source.plan ? source.plan->findDim(source.plan->entries.batch) : nullptr;
  for (int64_t batch : command.batches)
    if (dim && batch > dim->max)
      return makeUsageError("--batch: expected at most the " + Twine(dim->max) + " sequences that " + command.model +
                            " is for, got " + Twine(batch));
  return Error::success();
}

/// Prints counts for the emulated device, without running anything: its times say nothing about a GPU.
Error runCounts(const BenchCommand &command, ModelRequest request) {
  request.weights.randomSeed = 0; // weights are never created
  request.device.clear();         // the plan is that of a GPU
  Expected<ModelSource> source = openModel(request);
  if (!source)
    return source.takeError();
  if (Error error = checkSizes(command, *source))
    return error;
  Expected<LocatedPlan> located = locatePlan(*source);
  if (!located)
    return located.takeError();
  return print(command, measureAll(command, located->plan, /*executor=*/nullptr, /*trace=*/nullptr), located->plan);
}

Error measure(const BenchCommand &command, Trace *trace) {
  EngineOptions options;
  Expected<std::vector<std::string>> devices = resolveKernelDevices("kiln bench", command.device);
  if (!devices)
    return devices.takeError();
  options.device = devices->front();
  options.batch = *llvm::max_element(command.batches);
  options.entries =
      entryOf(command) == Entry::Score ? std::vector{Entry::Score} : std::vector{Entry::Prefill, Entry::Decode};
  options.needsKernels = true;
  options.trace = trace;
  ModelRequest request{.model = command.model,
                       .weights = command.weights,
                       .pipeline = command.pipeline,
                       .batch = options.batch,
                       .device = options.device,
                       .reference = referenceUse(options)};
  if (options.device == "emulate")
    return runCounts(command, std::move(request));
  Expected<ModelSource> source = traced(trace, TraceLane::Host, "open the model", [&] { return openModel(request); });
  if (!source)
    return source.takeError();
  if (Error error = checkSizes(command, *source))
    return error;
  if (Error error = resolveKernelDevices("kiln bench", command.device, source->ranks()).moveInto(*devices))
    return error;
  auto engines =
      traced(trace, TraceLane::Host, "open the device", [&] { return openEngines(*source, options, *devices); });
  if (!engines)
    return engines.takeError();
  const Plan &plan = engines->front()->executor()->plan();
  auto rows = plan.ranks > 1 ? measureRanks(command, *engines->front()) : measureAll(command, *engines, trace);
  return print(command, std::move(rows), plan);
}

} // namespace

Error run(const BenchCommand &command) {
  if (command.what == "speculation")
    return benchSpeculation(command);
  return withTrace(command.trace, "kiln bench", [&](Trace *trace) { return measure(command, trace); });
}

} // namespace kiln
