#include "codegen/SamplingFunctions.h"

namespace kiln {

/// The choices by which the host may be behind with reading tokens, and the passes of several choices; powers of two,
/// so that the entry of a choice is cheap to find.
constexpr int64_t ringEntries = 64, ringPasses = 8;

/// Words of SamplingSettings and SamplingRow, and recent choices of a row, in templates/sample/state.cuh.
constexpr int64_t settingsWords = 18, rowWords = 6, recentChoices = 64;

namespace {

struct SampleShape {
  int64_t vocabulary, context, threads, group;
  int64_t tokens; ///< of a row in @verify; 1: the plan has none

  int64_t groups() const { return llvm::divideCeil(vocabulary, group); }
  int64_t blocks() const { return llvm::divideCeil(groups(), threads / 32); }
  int64_t ring() const { return std::max(ringEntries, static_cast<int64_t>(llvm::PowerOf2Ceil(ringPasses * tokens))); }
};

/// In the first stage, each warp has a group, with four logits per lane unless that gives more groups than threads. In
/// the second stage, each row has one block.
SampleShape shapeFor(const PlanModelInfo &model, int64_t tokens, int64_t threads) {
  SampleShape shape = {model.vocabulary, model.context, threads, 128, tokens};
  while (shape.groups() > threads)
    shape.group *= 2;
  return shape;
}

using Argument = SamplingArgument;

int64_t threadsFor(const PlanModelInfo &model) {
  return std::clamp<int64_t>(llvm::PowerOf2Ceil(model.vocabulary / 16), 32, 1024);
}

/// The state of the rows, as templates/sample/sequence.cuh has it.
std::vector<Argument> stateOf(const SampleShape &shape, const Expr &batch) {
  return {{"tokens", "i32", DType::I32, {batch, Expr(1)}},
          {"positions", "i32", DType::I32, {batch}},
          {"settings", "const SamplingSettings", DType::I32, {batch, Expr(settingsWords)}},
          {"rows", "SamplingRow", DType::I32, {batch, Expr(rowWords)}},
          {"launches", "u32", DType::I32, {batch}},
          {"ring", "u64", DType::I32, {batch, Expr(2 * shape.ring())}},
          {"text", "i32", DType::I32, {batch, Expr(shape.context)}},
          {"recent", "i32", DType::I32, {batch, Expr(recentChoices)}}};
}
Argument bestOf(const SampleShape &shape, const Expr &batch) {
  return {"best", "GroupBest", DType::I32, {batch, Expr(4 * shape.groups())}};
}

/// A function with one step and one kernel.
struct SamplingFunction {
  Entry entry;
  StringRef title;
  StringRef header; ///< in templates/
  std::vector<Argument> arguments;
  std::array<Expr, 3> grid;
  int64_t threads;
  Expr counters; ///< the kernel's last argument, if it has some
  std::string body;
  bool hasStaticShared = false; ///< kSampleShared<Config> says how much
};

/// Writes the functions of one plan.
class SamplingWriter {
public:
  SamplingWriter(GeneratedPlan &generated, const SampleShape &shape)
      : generated(generated), plan(generated.plan), shape(shape), batch(Expr::name(plan.entries.batch)),
        location(plan.function(Entry::Decode).steps.back().location) {}

  void addSample() {
    plan.entries.sample = {"logits", "tokens", "positions", "settings", "rows", "ring", "text", "recent", "launches"};
    std::vector<Argument> arguments = {{"logits", "const float", DType::F32, {batch, Expr(shape.vocabulary)}}};
    llvm::append_range(arguments, stateOf(shape, batch));
    arguments.push_back(bestOf(shape, batch));
    add({Entry::Sample,
         "the next token of each row: greedy, or temperature, top-k, top-p and min-p",
         "sample/sample.cuh",
         std::move(arguments),
         {Expr(shape.blocks()), batch, Expr(1)},
         shape.threads,
         batch,
         "sample<Config>(logits, " + stateText() + ", best, counters);",
         /*hasStaticShared=*/true});
  }

  void addSpeculation() {
    addAccept();
    addNgram();
    addFollow();
    addCollect();
    addPretend();
  }

private:
  static std::string stateText() { return "{tokens, positions, settings, rows, launches, ring, text, recent}"; }

  Argument words(StringRef name, StringRef type, int64_t perRow = 0) const {
    SmallVector<Expr, 4> dims = {batch};
    if (perRow > 0)
      dims.push_back(Expr(perRow));
    return {name.str(), type, DType::I32, dims};
  }

  void addAccept() {
    plan.entries.accept = {"logits", "guesses"};
    std::vector<Argument> arguments = {
        {"logits", "const float", DType::F32, {batch, Expr(shape.tokens), Expr(shape.vocabulary)}},
        words("guesses", "const i32", shape.tokens)};
    llvm::append_range(arguments, stateOf(shape, batch));
    arguments.push_back(words("bests", "GroupBest", 4 * shape.groups() * shape.tokens));
    arguments.push_back(words("chosen", "i32", shape.tokens));
    add({Entry::Accept,
         "the next tokens of each row, as long as guesses are right",
         "speculate/accept.cuh",
         std::move(arguments),
         {Expr(shape.blocks()), Expr(shape.tokens), batch},
         shape.threads,
         batch * Expr(shape.tokens + 1),
         "accept<Config>(logits, guesses, " + stateText() + ", bests, chosen, counters);",
         /*hasStaticShared=*/true});
  }

  void addNgram() {
    plan.entries.ngram = {"guesses", "starts"};
    constexpr int64_t threads = 256;
    add({Entry::Ngram,
         "guesses: each text goes on as it did behind the same tokens",
         "speculate/ngram.cuh",
         {words("tokens", "const i32", 1), words("positions", "const i32"), words("text", "const i32", shape.context),
          words("guesses", "i32", shape.tokens), words("starts", "i32")},
         {batch, Expr(1), Expr(1)},
         threads,
         Expr(0),
         "guessByNgram<Config>(tokens, positions, text, guesses, starts);"});
  }

  void addFollow() {
    plan.entries.follow = {"draft_settings", "draft_tokens", "draft_positions", "draft_rows", "draft_launches"};
    add({Entry::Follow,
         "a model that guesses goes on where the text is",
         "speculate/follow.cuh",
         {words("tokens", "const i32", 1), words("positions", "const i32"),
          words("rows", "const SamplingRow", rowWords),
          words("draft_settings", "const SamplingSettings", settingsWords), words("draft_tokens", "i32", 1),
          words("draft_positions", "i32"), words("draft_rows", "SamplingRow", rowWords),
          words("draft_launches", "u32")},
         {batch, Expr(1), Expr(1)},
         /*threads=*/32,
         Expr(0),
         "follow(tokens, positions, rows, draft_settings, draft_tokens, draft_positions, draft_rows, "
         "draft_launches);"});
  }

  void addCollect() {
    plan.entries.collect = {"draft_recent", "draft_launches", "guesses", "starts"};
    add({Entry::Collect,
         "guesses: what a model has chosen",
         "speculate/collect.cuh",
         {words("tokens", "const i32", 1), words("positions", "const i32"),
          words("draft_recent", "const i32", recentChoices), words("draft_launches", "const u32"),
          words("guesses", "i32", shape.tokens), words("starts", "i32")},
         {batch, Expr(1), Expr(1)},
         /*threads=*/32,
         Expr(0),
         "collectGuesses<Config>(tokens, positions, draft_recent, draft_launches, guesses, starts);"});
  }

  void addPretend() {
    plan.entries.pretend = {"known", "odds", "guesses"};
    add({Entry::Pretend,
         "guesses that are right with a known probability, for measurements",
         "speculate/pretend.cuh",
         {words("positions", "const i32"), words("known", "const i32", shape.context), words("odds", "const i32", 2),
          words("guesses", "i32", shape.tokens)},
         {batch, Expr(1), Expr(1)},
         /*threads=*/32,
         Expr(0),
         "pretendGuesses<Config>(positions, known, odds, guesses);"});
  }

  void add(const SamplingFunction &function) {
    std::string name = (entryName(function.entry) + "__v" + Twine(shape.vocabulary)).str();
    if (function.entry != Entry::Sample)
      name += "_t" + std::to_string(shape.tokens);
    generated.sources.push_back({name, sourceText(name, function)});
    PlanKernel &record = plan.kernels.emplace_back();
    record.name = name;
    record.family = entryName(Entry::Sample).str();
    record.title = entryName(function.entry).str();
    record.extents = "v" + std::to_string(shape.vocabulary);
    plan.functions.push_back(describe(name, function));
  }

  std::string sourceText(StringRef name, const SamplingFunction &function) const {
    std::vector<std::string> parameters;
    for (const Argument &argument : function.arguments)
      parameters.push_back(argument.parameter());
    if (function.counters.asConstant() != 0)
      parameters.emplace_back("u32 *counters");
    std::string threads = std::to_string(function.threads);
    return ("// " + name + "   " + plan.target + "   1 step\n//\n//   " + function.title +
            "\n#include \"device/device.cuh\"\n#include \"" + function.header +
            "\"\n\nusing namespace kiln;\n\nstruct Config {\n  static constexpr int kVocabulary = " +
            Twine(shape.vocabulary) + ", kPitch = " + Twine(shape.vocabulary) + ", kGroup = " + Twine(shape.group) +
            ",\n                       kThreads = " + threads + ", kRing = " + Twine(shape.ring()) +
            ", kContext = " + Twine(shape.context) + ", kTokens = " + Twine(shape.tokens) +
            ";\n};\n\nextern \"C\" __global__ void __launch_bounds__(" + threads + ", 1)\n" + name + "(\n    " +
            llvm::join(parameters, ",\n    ") + ") {\n" +
            (function.hasStaticShared
                 ? "  static_assert(kSampleShared<Config>.dynamic == 0, \"shared memory as planned\");\n"
                 : "") +
            "  allowDependents();\n  waitForDependencies();\n  " + function.body + "\n}\n")
        .str();
  }

  /// The arguments are counted in words.
  PlanFunction describe(StringRef kernel, const SamplingFunction &from) const {
    PlanFunction function;
    function.name = entryName(from.entry).str();
    PlanStep &step = function.steps.emplace_back();
    step.launch = {kernel.str(), from.grid, from.threads, 0};
    for (const Argument &argument : from.arguments) {
      function.arguments.push_back({argument.name, argument.dtype, argument.shape});
      step.launch.arguments.push_back("%" + argument.name);
    }
    if (from.counters.asConstant() != 0)
      step.launch.arguments.push_back("@counters");
    step.counters = from.counters;
    step.location = location;
    // Of @sample and @accept, which read logits; the others take no time worth counting.
    Expr logits = from.hasStaticShared ? from.grid[1] * from.grid[2] * Expr(shape.vocabulary) : Expr(0);
    step.bytes = Expr(4) * logits;
    step.flops = logits;
    return function;
  }

  GeneratedPlan &generated;
  Plan &plan;
  SampleShape shape;
  Expr batch;
  std::string location;
};

} // namespace

bool canSample(const Plan &plan) {
  const std::optional<DecodeEntry> &decode = plan.entries.decode;
  if (!decode || !plan.entries.prefill)
    return false;
  const PlanFunction &function = plan.function(Entry::Decode);
  auto logits =
      llvm::find_if(function.buffers, [&](const PlanBuffer &buffer) { return buffer.tensor.name == decode->logits; });
  return logits->tensor.dtype == DType::F32;
}

SamplingParts samplingParts(const Plan &plan, int64_t threads) {
  const SampleShape shape = shapeFor(plan.model, plan.verifyTokens(), threads);
  const Expr batch = Expr::name(plan.entries.batch);
  Argument best = bestOf(shape, batch);
  best.name = "group_best"; // @sample has other groups
  return {{{"kVocabulary", shape.vocabulary},
           {"kPitch", shape.vocabulary},
           {"kGroup", shape.group},
           {"kThreads", threads},
           {"kRing", shape.ring()}},
          stateOf(shape, batch),
          best};
}

void addSamplingFunctions(GeneratedPlan &generated) {
  Plan &plan = generated.plan;
  if (!canSample(plan))
    return;
  int64_t tokens = plan.verifyTokens();
  SamplingWriter writer(generated, shapeFor(plan.model, tokens, threadsFor(plan.model)));
  writer.addSample();
  if (tokens > 1)
    writer.addSpeculation();
}

} // namespace kiln
