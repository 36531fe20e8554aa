#include "codegen/SampleFunction.h"

namespace kiln {

/// Steps whose tokens the host may have left unread; a power of two, so that a launch's entry is cheap to find.
constexpr int64_t ringEntries = 64;

namespace {

struct SampleShape {
  int64_t vocabulary, pitch, threads, group;

  int64_t groups() const { return llvm::divideCeil(vocabulary, group); }
  int64_t blocks() const { return llvm::divideCeil(groups(), threads / 32); }
};

/// In the first stage a warp has a group, four logits a lane unless that would be more groups than threads; in the
/// second a block has a row.
SampleShape shapeFor(int64_t vocabulary, int64_t pitch) {
  int64_t threads = std::clamp<int64_t>(llvm::PowerOf2Ceil(vocabulary / 16), 32, 1024);
  SampleShape shape = {vocabulary, pitch, threads, 128};
  while (shape.groups() > threads)
    shape.group *= 2;
  return shape;
}

std::string sourceText(StringRef name, StringRef target, const SampleShape &shape) {
  std::string threads = std::to_string(shape.threads);
  return ("// " + name + "   " + target + "   1 step\n" +
          "//\n//   the next token of each row: greedy, or temperature, top-k and top-p\n" +
          "#include \"device/device.cuh\"\n#include \"sample/sample.cuh\"\n\nusing namespace kiln;\n\n" +
          "struct Config {\n  static constexpr int kVocabulary = " + Twine(shape.vocabulary) +
          ", kPitch = " + Twine(shape.pitch) + ", kGroup = " + Twine(shape.group) + ", kThreads = " + threads +
          ", kRing = " + Twine(ringEntries) + ";\n};\n\nextern \"C\" __global__ void __launch_bounds__(" + threads +
          ", 1)\n" + name +
          "(\n    const float *logits, i32 *tokens, i32 *positions, const SamplingSettings *settings,\n"
          "    SamplingRow *rows, u64 *best, u32 *launches, u64 *ring, u32 *arrivals) {\n"
          "  static_assert(kSampleShared<Config>.dynamic == 0, \"shared memory as planned\");\n"
          "  allowDependents();\n  waitForDependencies();\n"
          "  sample<Config>(logits, tokens, positions, settings, rows, best, launches, ring, arrivals);\n}\n")
      .str();
}

/// The tensors of templates/sample/, as words.
PlanFunction describe(StringRef kernel, StringRef location, const Expr &batch, const SampleShape &shape) {
  PlanFunction function;
  function.name = "sample";
  function.arguments = {{"logits", DType::F32, {batch, Expr(shape.pitch)}},
                        {"tokens", DType::I32, {batch, Expr(1)}},
                        {"positions", DType::I32, {batch}},
                        {"settings", DType::I32, {Expr(18)}},
                        {"rows", DType::I32, {batch, Expr(6)}},
                        {"best", DType::I32, {batch, Expr(2 * shape.groups())}},
                        {"launches", DType::I32, {batch}},
                        {"ring", DType::I32, {batch, Expr(2 * ringEntries)}}};
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

void addSampleFunction(GeneratedPlan &generated, const Module &module) {
  Plan &plan = generated.plan;
  const PlanFunction *decode = plan.findFunction("decode");
  if (!decode || decode->results.size() != 1 || decode->steps.empty())
    return;
  auto logits = llvm::find_if(decode->buffers,
                              [&](const PlanBuffer &buffer) { return buffer.tensor.name == decode->results.front(); });
  bool isRow = logits != decode->buffers.end() && logits->tensor.dtype == DType::F32 &&
               logits->tensor.shape.size() == 3 && module.attributes.count("vocab");
  std::optional<int64_t> pitch = isRow ? logits->tensor.shape.back().asConstant() : std::nullopt;
  if (!pitch)
    return;
  SampleShape shape = shapeFor(std::min(plan.model.vocabulary, *pitch), *pitch);
  std::string name = "sample__v" + std::to_string(shape.vocabulary);
  std::string source = sourceText(name, plan.target, shape);
  PlanFunction function = describe(name, decode->steps.back().location, logits->tensor.shape.front(), shape);
  plan.kernels.push_back({name, "sample", {}});
  generated.sources.push_back({name, std::move(source)});
  plan.functions.push_back(std::move(function));
}

} // namespace kiln
