#include "codegen/Generate.h"

#include "codegen/CheckPlanned.h"
#include "codegen/FindEntries.h"
#include "codegen/KernelText.h"
#include "codegen/SamplingFunctions.h"
#include "codegen/TokenLoop.h"
#include "ir/Printer.h"
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Halves.h"
#include "kernels/families/matmul/LibraryMatmul.h"
#include "ops/Region.h"
#include "support/Diagnostic.h"
#include "support/Version.h"
#include "support/files/File.h"
#include "support/text/Printable.h"

namespace kiln {

namespace {

std::string locationText(const Op &op) {
  if (!op.loc)
    return "(unknown)";
  // The generated code must not depend on the folder of the IR text.
  StringRef file = op.loc.isParsePosition ? llvm::sys::path::filename(op.loc.file->name) : StringRef(op.loc.file->name);
  // It may contain any bytes, and a newline would end the comment.
  return printable(file, "") + ":" + std::to_string(op.loc.line);
}

Expr parseExpr(StringRef text) { return cantFail(Expr::parse(text), "plan-memory writes formulas"); }

class Generator {
public:
  explicit Generator(const Module &module) : module(module) {}

  Expected<GeneratedPlan> run() {
    describeModule();
    for (const auto &function : module.functions) {
      // What a token takes; addGenerate makes a loop over tokens of it.
      if (findEntry(function->name) == Entry::Generate)
        continue;
      if (Error error = addFunction(*function))
        return error;
    }
    if (Error error = addGenerate())
      return error;
    for (size_t i = 0; i < bodies.size(); ++i)
      out.sources.push_back({out.plan.kernels[i].name, writeSource(i)});
    addSamplingFunctions(out);
    return std::move(out);
  }

private:
  /// Writes the kernel of an op for one of its choices.
  using WriteChoice = function_ref<Expected<WrittenKernel>(const KernelChoice &)>;

  void describeModule();
  Error addFunction(const Function &function);
  Error addGenerate();
  Expected<PlanStep> makeStep(const Op &op);
  Expected<PlanStep> makeKernelStep(const Op &op, WriteChoice write);
  PlanLaunch makeLaunch(const Op &op, WrittenKernel kernel);
  size_t kernelIndex(const KernelText &text, const Op &op);
  std::string writeSource(size_t kernel);

  const Module &module;
  GeneratedPlan out;
  std::vector<std::string> bodies;        ///< by kernel
  std::vector<std::string> firstLocation; ///< by kernel
  std::vector<int> stepCount;             ///< by kernel
  std::map<std::string, size_t> byText;
};

PlanTensor describe(const Value &value) {
  PlanTensor tensor{value.name, value.type.dtype, {}};
  for (const Dim &dim : value.type.shape)
    tensor.shape.push_back(dim.expr());
  return tensor;
}

void Generator::describeModule() {
  Plan &plan = out.plan;
  plan.compilerVersion = compilerVersion;
  plan.sourceHash = sha256Hex(toString(module));
  plan.target = module.attributes.find(ModuleAttribute::target)->second.asString().str();
  plan.stepByStep = module.boolAttribute(ModuleAttribute::stepByStep);
  plan.weightsFirst = module.boolAttribute(ModuleAttribute::weightsFirst);
  plan.serial = module.boolAttribute(ModuleAttribute::serial);
  if (const Attribute *invariant = findAttribute(module.attributes, ModuleAttribute::batchInvariant))
    plan.batchInvariant = invariant->asInt();
  plan.ranks = module.ranks();
  if (plan.ranks > 1 && plan.batchInvariant > 1)
    plan.halvedRows = fewestHalvedRows;
  if (const Attribute *strategy = findAttribute(module.attributes, ModuleAttribute::strategy))
    plan.strategy = strategy->asString().str();
  plan.model = modelInfo(module);
  for (const auto &dim : module.dims)
    plan.dims.push_back({dim->name, dim->min, dim->max});
  plan.entries = findEntries(module);
  llvm::sort(plan.dims, [](const PlanDim &a, const PlanDim &b) { return a.name < b.name; });
  for (const auto &weight : module.weights) {
    plan.weights.push_back({weight->name, *weight->recipe});
    if (weight->type.rank() == 2)
      plan.dtype = weight->type.dtype;
  }
  for (const auto &state : module.states)
    plan.states.push_back(describe(*state));
}

/// The index of the kernel with this text, which is added if it is new.
size_t Generator::kernelIndex(const KernelText &text, const Op &op) {
  PlanKernel record = text.record;
  auto name = [&] { return record.title + "__" + record.variant(); };
  auto [it, isNew] = byText.insert({name() + "\n" + text.body, bodies.size()});
  if (!isNew) {
    ++stepCount[it->second];
    return it->second;
  }
  // Kernels with equal names but other texts are numbered.
  for (record.name = name(); out.plan.findKernel(record.name); record.name = name())
    ++record.number;
  out.plan.kernels.push_back(std::move(record));
  bodies.push_back(text.body);
  firstLocation.push_back(locationText(op));
  stepCount.push_back(1);
  return it->second;
}

PlanLaunch Generator::makeLaunch(const Op &op, WrittenKernel kernel) {
  Launch launch = kernel.choice.family->launch(op, kernel.choice.tile);
  size_t index = kernelIndex(kernel.text, op);
  return {out.plan.kernels[index].name,
          launch.grid,
          launch.threads,
          launch.dynamicShared,
          launch.cooperative,
          std::move(kernel.text.arguments),
          launch.halfBlocks,
          std::move(kernel.text.constants)};
}

/// Makes a library step, still without arguments.
PlanStep beginLibraryStep(const Op &op, DType dtype, DType out) {
  MatmulProblem problem = matmulProblem(op);
  PlanStep step;
  step.launch.kernel = libraryMatmulName.str();
  step.matmul =
      PlanMatmul{.rows = problem.rows, .cols = problem.cols, .depth = problem.depth, .dtype = dtype, .out = out};
  return step;
}

/// Makes a step in which a library runs the products of all heads.
PlanStep makeLibraryBatchedStep(const Op &op) {
  MatmulProblem problem = matmulProblem(op);
  PlanStep step = beginLibraryStep(op, op.operand(0)->type.dtype, op.result()->type.dtype);
  step.matmul->batch = problem.batch;
  step.matmul->untransposed = !problem.transposed;
  for (const Value *value : {op.operand(0), op.operand(1), op.result()}) {
    // The new value of a state is stored in the state.
    const Value *state = writtenState(*value);
    step.launch.arguments.push_back("%" + (state ? state : value)->name);
  }
  step.launch.arguments.push_back("@workspace");
  return step;
}

/// Makes a step that a library runs.
PlanStep makeLibraryStep(const Op &op) {
  if (isLibraryBatched(op))
    return makeLibraryBatchedStep(op);
  LibraryMatmul matmul = *libraryMatmul(op);
  PlanStep step = beginLibraryStep(op, matmul.out->type.dtype, matmul.out->type.dtype);
  step.matmul->bias = matmul.bias != nullptr;
  step.matmul->gelu = matmul.gelu;
  step.matmul->residual = matmul.residual != nullptr;
  for (const Value *value :
       {matmul.a, matmul.weight, static_cast<const Value *>(matmul.bias), matmul.residual, matmul.out})
    if (value)
      step.launch.arguments.push_back("%" + (value == matmul.out ? *op.result() : *value).name);
  step.launch.arguments.push_back("@workspace");
  return step;
}

Expected<PlanStep> Generator::makeStep(const Op &op) {
  auto write = [&](const KernelChoice &choice) -> Expected<WrittenKernel> {
    Expected<KernelText> text = writeKernel(op, choice);
    if (!text)
      return text.takeError();
    return WrittenKernel{choice, std::move(*text)};
  };
  bool isLibrary = choiceOf(op).family->form == KernelForm::Library;
  Expected<PlanStep> step = isLibrary ? makeLibraryStep(op) : makeKernelStep(op, write);
  if (!step)
    return step;
  step->location = locationText(op);
  step->bytes = bytesMoved(op);
  step->flops = flopsOf(op);
  if (const Attribute *workspace = op.attribute("workspace"))
    step->workspace = {parseExpr(workspace->asString()), *workspaceBytes(op)};
  return step;
}

/// The most rows that variants launch a choice for; 0: any number, since the op's own choice is the same.
static int64_t mostRowsOf(const Op &op, const KernelChoice &choice) {
  if (choice == choiceOf(op))
    return 0;
  int64_t most = 0;
  for (const KernelVariant &variant : variantsOf(op))
    if (variant.choice == choice)
      most = std::max(most, variant.rows);
  return most;
}

/// Makes the step that launches a kernel for an op.
Expected<PlanStep> Generator::makeKernelStep(const Op &op, WriteChoice write) {
  Expected<WrittenKernel> general = write(choiceOf(op));
  if (!general)
    return general.takeError();
  PlanStep step;
  step.counters = general->text.counters;
  step.mailboxes = general->text.mailboxes;
  step.inbox = general->text.inbox;
  step.launch = makeLaunch(op, std::move(*general));
  step.rows = rowsOf(op);
  if (const DimSymbol *tokens = tokensOfRows(op))
    step.tokens = tokens->name;
  else if (attendsToCache(op))
    step.tokens = pastTokens;
  for (const KernelVariant &variant : variantsOf(op)) {
    Expected<WrittenKernel> own = write(variant.choice);
    if (!own)
      return own.takeError();
    KernelText &text = own->text;
    text.record.rows = mostRowsOf(op, variant.choice);
    step.mailboxes = std::max(step.mailboxes, text.mailboxes);
    step.inbox = std::max(step.inbox, text.inbox);
    if (text.counters.asConstant() != 0)
      step.counters = step.counters.asConstant() == 0 ? text.counters : max(step.counters, text.counters);
    step.variants.push_back({variant.rows, variant.tokens, makeLaunch(op, std::move(*own))});
  }
  return step;
}

/// The last step that reads a value, or the value's own step if none does.
int64_t lastUse(const Value &value, int64_t own, const DenseMap<const Op *, size_t> &positions) {
  int64_t last = own;
  for (Op *user : value.getUsers())
    last = std::max<int64_t>(last, positions.lookup(user->topLevel()));
  return last;
}

Error Generator::addFunction(const Function &function) {
  PlanFunction &planned = out.plan.functions.emplace_back();
  planned.name = function.name;
  planned.arena = parseExpr(function.attributes.find("arena")->second.asString());
  planned.live = parseExpr(function.attributes.find("live")->second.asString());
  for (const auto &argument : function.arguments)
    planned.arguments.push_back(describe(*argument));
  const DenseMap<const Op *, size_t> order = positions(function.body);
  for (const auto &[position, op] : llvm::enumerate(function.body.ops())) {
    if (op->has(Trait::Terminator)) {
      // The new value of a state is stored in the state.
      for (const Value *result : op->operands()) {
        const Value *state = writtenState(*result);
        planned.results.push_back((state ? state : result)->name);
      }
      continue;
    }
    const Attribute::List &offsets = op->attribute("offsets")->asList();
    for (const auto &[result, offset] : llvm::zip(op->results(), offsets)) {
      if (offset.asString() == "state")
        continue;
      int64_t first = static_cast<int64_t>(position);
      planned.buffers.push_back(
          {describe(*result), parseExpr(offset.asString()), first, lastUse(*result, first, order)});
    }
    Expected<PlanStep> step = makeStep(*op);
    if (!step)
      return step.takeError();
    planned.steps.push_back(std::move(*step));
  }
  return Error::success();
}

/// Adds @generate, if the module's, or @decode, is one kernel that can choose tokens itself.
Error Generator::addGenerate() {
  Expected<std::optional<TokenLoop>> loop = TokenLoop::of(module, out.plan);
  if (!loop)
    return loop.takeError();
  if (!*loop) {
    // What the module has under this name is no function that plans could have.
    if (const Function *generate = module.findFunction(Entry::Generate))
      return makeError(generate->loc, "@" + generate->name +
                                          ": expected one kernel that can choose tokens, decode_layers, beside "
                                          "@prefill and @decode");
    return Error::success();
  }
  const Op &op = (*loop)->op();
  Expected<PlanStep> step = makeKernelStep(op, [&](const KernelChoice &choice) { return (*loop)->write(choice); });
  if (!step)
    return step.takeError();
  const Expr tokens = Expr::name(out.plan.entries.tokens);
  step->location = locationText(op);
  step->bytes = bytesMoved(op) * tokens;
  step->flops = flopsOf(op) * tokens;
  PlanFunction &function = out.plan.functions.emplace_back();
  function.name = entryName(Entry::Generate).str();
  function.arguments = (*loop)->arguments(out.plan);
  function.steps.push_back(std::move(*step));
  if (const Attribute *most = findAttribute(op.parent()->function()->attributes, FunctionAttribute::sequences))
    function.sequences = most->asInt();
  out.plan.entries.generate = {out.plan.entries.decode->logits};
  return Error::success();
}

/// Writes the source under its heading, which has a line for each op; line numbers then count the heading.
std::string Generator::writeSource(size_t kernel) {
  PlanKernel &record = out.plan.kernels[kernel];
  int steps = stepCount[kernel];
  std::string text = "// " + record.name + "   " + out.plan.target + "   " + std::to_string(steps) +
                     (steps == 1 ? " step" : " steps") + "   from " + firstLocation[kernel] + "\n//\n";
  size_t width = 0;
  for (const PlanKernelOp &op : record.ops)
    width = std::max(width, op.value.size());
  int64_t line = llvm::count(text, '\n'), before = line + static_cast<int64_t>(record.ops.size());
  for (PlanKernelOp &op : record.ops) {
    text += "//   %" + op.value + std::string(width - op.value.size(), ' ') + " = " + op.op + "\n";
    for (int64_t &own : op.lines)
      own += before;
    op.lines.insert(op.lines.begin(), ++line);
  }
  auto [head, tail] = StringRef(bodies[kernel]).split("@NAME@");
  return text + head.str() + record.name + tail.str();
}

} // namespace

PlanModelInfo modelInfo(const Module &module) {
  PlanModelInfo model{module.name,
                      module.intAttribute(ModuleAttribute::context, 1),
                      module.intAttribute(ModuleAttribute::vocab, 1),
                      module.intAttribute(ModuleAttribute::layers, 1),
                      {}};
  if (const Attribute *eos = findAttribute(module.attributes, ModuleAttribute::eos))
    for (const Attribute &id : eos->asList())
      model.eosTokens.push_back(id.asInt());
  return model;
}

/// Checks that the plan's reader accepts the plan: IR text may have bounds, offsets and names that are invalid in
/// plans.
static Error checkReadable(const Plan &plan, const Module &module) {
  SourceManager sources;
  Expected<Plan> read = parsePlan(sources.add("plan.toml", writePlan(plan)));
  if (read)
    return Error::success();
  std::vector<Diagnostic> diagnostics = takeDiagnostics(read.takeError());
  return makeError(module.loc,
                   "module @" + module.name + " makes a plan that cannot run: " + diagnostics.front().message);
}

Expected<GeneratedPlan> generate(const Module &module) {
  if (Error error = checkPlanned(module))
    return error;
  Expected<GeneratedPlan> generated = Generator(module).run();
  if (!generated)
    return generated.takeError();
  if (Error error = checkReadable(generated->plan, module))
    return error;
  return generated;
}

} // namespace kiln
