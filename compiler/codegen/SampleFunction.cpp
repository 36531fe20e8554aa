#include "codegen/SampleFunction.h"

namespace kiln {

/// The number of steps by which the host may be behind with reading tokens; a power of two, so that the entry of a
/// launch is cheap to find.
constexpr int64_t ringEntries = 64;

namespace {

struct SampleShape {
  int64_t vocabulary, threads, group;

  int64_t groups() const { return llvm::divideCeil(vocabulary, group); }
  int64_t blocks() const { return llvm::divideCeil(groups(), threads / 32); }
};

/// In the first stage, each warp has a group, with four logits per lane unless that gives more groups than threads. In
/// the second stage, each row has one block.
SampleShape shapeFor(int64_t vocabulary) {
  int64_t threads = std::clamp<int64_t>(llvm::PowerOf2Ceil(vocabulary / 16), 32, 1024);
  SampleShape shape = {vocabulary, threads, 128};
  while (shape.groups() > threads)
    shape.group *= 2;
  return shape;
}

std::string sourceText(StringRef name, StringRef target, const SampleShape &shape) {
  std::string threads = std::to_string(shape.threads);
  return ("// " + name + "   " + target + "   1 step\n" +
          "//\n//   the next token of each row: greedy, or temperature, top-k, top-p and min-p\n" +
          "#include \"device/device.cuh\"\n#include \"sample/sample.cuh\"\n\nusing namespace kiln;\n\n" +
          "struct Config {\n  static constexpr int kVocabulary = " + Twine(shape.vocabulary) +
          ", kPitch = " + Twine(shape.vocabulary) + ", kGroup = " + Twine(shape.group) + ", kThreads = " + threads +
          ", kRing = " + Twine(ringEntries) + ";\n};\n\nextern \"C\" __global__ void __launch_bounds__(" + threads +
          ", 1)\n" + name +
          "(\n    const float *logits, i32 *tokens, i32 *positions, const SamplingSettings *settings,\n"
          "    SamplingRow *rows, GroupBest *best, u32 *launches, u64 *ring, u32 *arrivals) {\n"
          "  static_assert(kSampleShared<Config>.dynamic == 0, \"shared memory as planned\");\n"
          "  allowDependents();\n  waitForDependencies();\n"
          "  sample<Config>(logits, tokens, positions, settings, rows, best, launches, ring, arrivals);\n}\n")
      .str();
}

/// Describes the tensors of templates/sample/, counted in words.
PlanFunction describe(const SampleEntry &names, StringRef kernel, StringRef location, const Expr &batch,
                      const SampleShape &shape) {
  PlanFunction function;
  function.name = entryName(Entry::Sample).str();
  function.arguments = {{names.logits, DType::F32, {batch, Expr(shape.vocabulary)}},
                        {names.tokens, DType::I32, {batch, Expr(1)}},
                        {names.positions, DType::I32, {batch}},
                        {names.settings, DType::I32, {batch, Expr(18)}},
                        {names.rows, DType::I32, {batch, Expr(6)}},
                        {"best", DType::I32, {batch, Expr(4 * shape.groups())}},
                        {"launches", DType::I32, {batch}},
                        {names.ring, DType::I32, {batch, Expr(2 * ringEntries)}}};
  PlanStep &step = function.steps.emplace_back();
  step.launch = {kernel.str(), {Expr(shape.blocks()), batch, Expr(1)}, shape.threads, 0};
  for (const PlanTensor &argument : function.arguments)
    step.launch.arguments.push_back("%" + argument.name);
  step.launch.arguments.push_back("@counters");
  step.counters = batch;
  step.location = location.str();
  step.bytes = batch * Expr(4 * shape.vocabulary);
  step.flops = batch * Expr(shape.vocabulary);
  return function;
}

} // namespace

void addSampleFunction(GeneratedPlan &generated) {
  Plan &plan = generated.plan;
  const std::optional<DecodeEntry> &decode = plan.entries.decode;
  if (!decode || !plan.entries.prefill)
    return;
  const PlanFunction &function = plan.function(Entry::Decode);
  auto logits =
      llvm::find_if(function.buffers, [&](const PlanBuffer &buffer) { return buffer.tensor.name == decode->logits; });
  if (logits->tensor.dtype != DType::F32)
    return;
  SampleShape shape = shapeFor(plan.model.vocabulary);
  std::string name = "sample__v" + std::to_string(shape.vocabulary);
  generated.sources.push_back({name, sourceText(name, plan.target, shape)});
  PlanKernel &record = plan.kernels.emplace_back();
  record.name = name;
  record.family = record.title = entryName(Entry::Sample).str();
  record.extents = "v" + std::to_string(shape.vocabulary);
  plan.entries.sample = {"logits", "tokens", "positions", "settings", "rows", "ring"};
  plan.functions.push_back(
      describe(*plan.entries.sample, name, function.steps.back().location, Expr::name(plan.entries.batch), shape));
}

} // namespace kiln
