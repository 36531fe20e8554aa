#include "codegen/KernelText.h"

#include "ir/Verifier.h"
#include "kernels/cost/Problem.h"
#include "ops/Region.h"

namespace kiln {

std::string visibility(const Op &mask, StringRef query, StringRef key) {
  std::string condition = (key + " <= " + query).str();
  if (const Attribute *window = mask.attribute("window"))
    condition += (" && " + key + " > " + query + " - " + window->str()).str();
  return condition;
}

std::string offsetText(const Op &mask) {
  const int64_t offset = mask.intAttribute("offset");
  return offset == 0 ? "" : (offset < 0 ? " - " : " + ") + std::to_string(std::abs(offset));
}

std::string constantName(StringRef tileKey) {
  std::string name = "k";
  bool atStart = true;
  for (char c : tileKey) {
    if (c != '_')
      name += atStart ? llvm::toUpper(c) : c;
    atStart = c == '_';
  }
  return name;
}

/// The ops of the IR that the kernel of an op computes.
static std::vector<const Op *> computedOps(const Op &op) {
  return op.region() ? opsOf(*op.region()) : std::vector<const Op *>{&op};
}

KernelAssembler::KernelAssembler(const Op &op, const KernelChoice &choice, const KernelNames &names)
    : op(op), names(names), choice(choice), computed(computedOps(op)), callFunctor("Call", names) {
  if (choice.family->maps)
    maps = choice.family->maps(op, choice.tile);
}

void KernelAssembler::constant(StringRef name, const Twine &value) { constants.push_back({name.str(), value.str()}); }

void KernelAssembler::add(const Functor &functor) {
  declarations.push_back({""});
  llvm::append_range(declarations, functor.declaration());
  callFunctor.addMembersOf(functor);
}

const OperandMap *KernelAssembler::findMap(const Value &value) const {
  auto found = llvm::find_if(maps, [&](const OperandMap &map) { return map.operand == &value; });
  return found == maps.end() ? nullptr : &*found;
}

std::string KernelAssembler::operand(const Value &value) {
  return findMap(value) ? callFunctor.map(value) : callFunctor.pointer(value);
}

std::string KernelAssembler::array(ArrayRef<const Value *> values, bool writes) {
  if (llvm::none_of(arrays, [&](const auto &known) { return known.front() == values.front(); }))
    arrays.push_back(values.vec());
  return findMap(*values.front()) ? callFunctor.map(*values.front()) : callFunctor.pointer(*values.front(), writes);
}

void KernelAssembler::addWorkspace(StringRef type) { partType = type.str(); }

/// Lines of constants: first integers, then flags.
static std::string constantLines(ArrayRef<std::pair<std::string, std::string>> constants) {
  std::vector<std::string> integers, flags;
  for (const auto &[name, value] : constants)
    (value == "true" || value == "false" ? flags : integers).push_back(name + " = " + value);
  std::string text;
  if (!integers.empty())
    text += "  static constexpr int " + llvm::join(integers, ", ") + ";\n";
  if (!flags.empty())
    text += "  static constexpr bool " + llvm::join(flags, ", ") + ";\n";
  return text;
}

std::string KernelAssembler::config() const {
  std::vector<std::pair<std::string, std::string>> tile;
  for (const auto &[key, value] : choice.tile)
    tile.push_back({constantName(key), value.str()});
  return "struct Config {\n" + constantLines(constants) + constantLines(tile) + "};\n";
}

/// Declares the kernel's arrays in constant memory, and records the weights that they hold.
std::string KernelAssembler::constantMemory(std::vector<PlanConstant> &constants) const {
  std::string text;
  for (const Value *input : op.inputs()) {
    if (!names.isConstant(*input))
      continue;
    constants.push_back({names.pointerTo(*input), input->name});
    // Aligned for the widest access.
    text += ("alignas(16) __constant__ " + cxxType(input->type.dtype) + " " + constants.back().symbol + "[" +
             input->type.lastDim().str() + "];\n")
                .str();
  }
  return text.empty() ? text : "\n// Each layer has an instance of this module, with its weights.\n" + text;
}

/// Parameters: inputs and results in the op's order, then dims in the module's order.
std::vector<Functor::Member> KernelAssembler::parameters() const {
  std::vector<Functor::Member> ordered;
  auto take = [&](function_ref<bool(const Functor::Member &)> accept) {
    for (const Functor::Member &member : callFunctor.members()) {
      bool isNew = llvm::none_of(ordered, [&](const Functor::Member &known) { return known.name == member.name; });
      if (isNew && accept(member))
        ordered.push_back(member);
    }
  };
  for (const Value *input : op.inputs())
    take([&](const Functor::Member &member) { return member.value == input; });
  take([](const Functor::Member &member) { return member.value != nullptr; });
  for (const auto &dim : op.parent()->function()->module().dims)
    take([&](const Functor::Member &member) { return member.dim == dim.get(); });
  return ordered;
}

/// The plan's name for the memory of an op's value; a value that a region yields has the name of the op's result.
static std::string planName(const Op &op, const Value &value) {
  if (value.definingOp() && value.definingOp()->parentOp() == &op) {
    ArrayRef<Value *> yielded = op.region()->terminator()->operands();
    return "%" + op.result(llvm::find(yielded, &value) - yielded.begin())->name;
  }
  // The new value of a state is stored in the state.
  const Value *state = writtenState(value);
  return "%" + (state ? state : &value)->name;
}

namespace {

/// Writes a kernel's body, and records which lines implement which op.
class SourceLines {
public:
  SourceLines(std::vector<const Op *> ops, KernelText &text) : ops(std::move(ops)), text(text) {}

  /// Adds whole lines that implement some ops or none.
  void add(StringRef lines, ArrayRef<const Op *> computed = {}) {
    for (const Op *op : computed)
      if (auto at = llvm::find(ops, op); at != ops.end())
        take(lines, text.record.ops[static_cast<size_t>(at - ops.begin())]);
    append(lines);
  }

  /// Adds a line that calls the template. It implements the given ops, or all ops without lines of their own.
  void addCall(StringRef line, ArrayRef<const Op *> computed) {
    if (!computed.empty())
      return add(line, computed);
    for (PlanKernelOp &record : text.record.ops)
      if (record.lines.empty())
        take(line, record);
    append(line);
  }

private:
  void take(StringRef lines, PlanKernelOp &op) const {
    for (size_t i = 0; i < lines.count('\n'); ++i)
      op.lines.push_back(line + static_cast<int64_t>(i));
  }

  void append(StringRef lines) {
    text.body += lines;
    line += static_cast<int64_t>(lines.count('\n'));
  }

  std::vector<const Op *> ops; ///< in the order of the record
  KernelText &text;
  int64_t line = 1; ///< number of the next line
};

} // namespace

/// Joins parameters in lines of at most 100 columns.
static std::string wrapList(ArrayRef<std::string> items) {
  std::string text, line;
  for (const std::string &item : items) {
    if (!line.empty() && line.size() + item.size() > 94) {
      text += line + ",\n    ";
      line.clear();
    }
    line += (line.empty() ? "" : ", ") + item;
  }
  return "\n    " + text + line;
}

/// The part of a kernel's name about shapes: its extents, few tokens per sequence, keys from a cache.
static std::string shapeText(const Op &op, StringRef extents) {
  const Op &main = *anchor(op);
  SmallVector<std::string, 3> parts;
  if (!extents.empty())
    parts.push_back(extents.str());
  bool isNamed = false;
  const Dim few(verifiedTokens(op.parent()->function()->module()));
  bool isVerify = findEntry(op.parent()->function()->name) == Entry::Verify;
  for (const Value *operand : main.operands().take_front(2)) {
    const Type &type = operand->type;
    const bool isEmbed = main.is(OpKind::embed) && type.rank() == 2;
    const Dim *tokens = type.rank() == 3 || isEmbed ? &type.shape[1] : type.rank() == 4 ? &type.shape[2] : nullptr;
    if (tokens && (*tokens == Dim(1) || (isVerify && *tokens == few)) && !std::exchange(isNamed, true))
      parts.push_back("t" + tokens->str());
    if (main.is(OpKind::qk) && operand == main.operand(1) && type.shape[2].asConstant())
      parts.push_back("cached");
  }
  return llvm::join(parts, "__");
}

PlanKernel KernelAssembler::describe(DType dtype, StringRef extents) const {
  PlanKernel record;
  record.family = choice.family->name.str();
  record.title = op.region() ? op.symbol : op.mnemonic().str();
  record.dtype = dtype;
  record.extents = shapeText(op, extents);
  record.cluster = choice.family->launch(op, choice.tile).cluster;
  for (StringRef phase : choice.family->phases)
    record.phases.push_back(phase.str());
  for (const Op *one : computed)
    record.ops.push_back({names.of(*one->result()).str(), names.operation(*one), {}});
  return record;
}

/// The assertion on shared memory: `static_assert(kSoftmaxShared<Config> == SharedBytes{128, 0}, …);`
std::string KernelAssembler::sharedAssertion(ArrayRef<std::string> layoutTypes, const Launch &launch) const {
  StringRef body = choice.family->body;
  std::string types = "Config";
  for (const std::string &type : layoutTypes)
    types += ", " + type;
  return ("static_assert(k" + Twine(llvm::toUpper(body.front())) + body.drop_front() + "Shared<" + types +
          "> == SharedBytes{" + Twine(launch.staticShared) + ", " + Twine(launch.dynamicShared) +
          "}, \"shared memory as planned\");")
      .str();
}

/// The declaration of a tensor's parameter; the text receives its arguments, and the record what it says of them.
std::string KernelAssembler::declare(const Functor::Member &member, KernelText &text) const {
  // No two tensors of a kernel overlap: plan-memory separates values that are live together.
  std::string promise =
      op.parent()->function()->module().boolAttribute(ModuleAttribute::restrictPointers) ? "__restrict__ " : "";
  const auto argument = static_cast<int64_t>(text.arguments.size());
  if (member.isMap) {
    const OperandMap &map = *findMap(*member.value);
    text.record.maps.push_back({argument, member.value->type.dtype, map.extents, map.strides, map.box});
  }
  if (member.ranks > 1) {
    text.record.arrays.push_back({argument, member.ranks});
    for (int64_t rank = 0; rank < member.ranks; ++rank)
      text.arguments.push_back("@" + std::to_string(rank) + planName(op, *member.value));
    return "const __grid_constant__ " + member.type + member.name;
  }
  auto values = llvm::find_if(arrays, [&](const auto &array) { return array.front() == member.value; });
  if (values == arrays.end()) {
    text.arguments.push_back(planName(op, *member.value));
    return member.type + (member.isMap ? "" : promise) + member.name;
  }
  text.record.arrays.push_back({argument, static_cast<int64_t>(values->size())});
  for (const Value *value : *values)
    text.arguments.push_back(planName(op, *value));
  return "const __grid_constant__ PerLayer<" + (member.isMap ? "TensorMap" : member.type) + ", " +
         std::to_string(values->size()) + "> " + member.name;
}

/// Whether the kernel's mailboxes are those of all ranks, not of this one alone.
bool KernelAssembler::hasMailboxesOfRanks() const {
  return sharesMailboxes && op.parent()->function()->module().ranks() > 1;
}

/// Declares what kernels of several ranks wait with: inboxes or mailboxes of all ranks, and the number of this one if
/// these or a functor need it.
void KernelAssembler::declareRanks(std::vector<std::string> &declared, KernelText &text) const {
  const int64_t ranks = op.parent()->function()->module().ranks();
  auto declareAll = [&](const Twine &declaration, StringRef argument) {
    text.record.arrays.push_back({static_cast<int64_t>(text.arguments.size()), ranks});
    declared.push_back(declaration.str());
    for (int64_t rank = 0; rank < ranks; ++rank)
      text.arguments.push_back(argument.str() + std::to_string(rank));
  };
  const bool hasMails = hasMailboxesOfRanks();
  if (hasInboxes)
    declareAll(formatv("const __grid_constant__ PerRank<BlockInbox<{0}> *, {0}> inboxes", ranks).str(), "@inbox");
  if (hasMails)
    declareAll(formatv("const __grid_constant__ PerRank<StampedValue *, {0}> mails", ranks).str(), "@mailboxes");
  if (hasInboxes || hasMails) {
    declared.push_back("const u32 *stop");
    text.arguments.push_back("@stop");
  }
  auto isRank = [](const Functor::Member &member) { return !member.value && member.name == "rank"; };
  if (hasInboxes || hasMails || llvm::any_of(callFunctor.members(), isRank)) {
    declared.push_back("int rank");
    text.arguments.push_back("@rank");
  }
}

/// Declares tensors, then workspace, counters, mailboxes and what concerns ranks, then dims; the text receives the
/// matching arguments.
std::vector<std::string> KernelAssembler::declareParameters(KernelText &text) const {
  std::vector<std::string> declared;
  std::vector<Functor::Member> members = parameters();
  auto dims = llvm::find_if(members, [](const Functor::Member &member) { return !member.value; });
  for (auto it = members.begin(); it != dims; ++it)
    declared.push_back(declare(*it, text));
  if (!partType.empty()) {
    declared.push_back(partType + " *parts, u32 *arrivals");
    llvm::append_range(text.arguments, std::vector<std::string>{"@workspace", "@counters"});
  }
  if (hasMailboxes && !hasMailboxesOfRanks()) {
    declared.push_back("StampedValue *mail");
    text.arguments.push_back("@mailboxes");
  }
  for (const auto &[declaration, argument] : ownParameters) {
    declared.push_back(declaration);
    text.arguments.push_back(argument);
  }
  declareRanks(declared, text);
  for (auto it = dims; it != members.end(); ++it) {
    declared.push_back(it->type + it->name);
    text.arguments.push_back(it->dim->name);
  }
  return declared;
}

/// A line for each tensor map. Kernels with equal texts are one kernel, so the text must tell maps apart.
std::string KernelAssembler::mapComments() const {
  auto list = [](const auto &items, auto print) { return llvm::join(llvm::map_range(items, print), ", "); };
  auto formula = [](const Expr &expr) { return expr.str(); };
  std::string lines;
  for (const OperandMap &map : maps)
    lines += "// " + names.mapOf(*map.operand) + ": extents " + list(map.extents, formula) + "; strides " +
             list(map.strides, formula) + " bytes; box " + list(map.box, formula) + "\n";
  return lines;
}

/// Checks that some functor stores every result.
Error KernelAssembler::checkResults() const {
  for (const auto &result : op.results()) {
    const Value &value = op.region() ? *op.region()->terminator()->operand(result->resultIndex()) : *result;
    const Value *state = writtenState(value), *memory = state ? state : &value;
    auto stores = [&](const Functor::Member &member) { return member.writes && member.value == memory; };
    if (llvm::none_of(callFunctor.members(), stores))
      return opError(op, "expected results that the kernel " + choice.family->name + " stores, got %" + value.name);
  }
  return Error::success();
}

/// The text of the kernel's function up to the call of the template.
std::string KernelAssembler::entry(ArrayRef<std::string> declared, ArrayRef<std::string> layoutTypes) const {
  Launch launch = choice.family->launch(op, choice.tile);
  std::string bounds = std::to_string(launch.threads);
  if (launch.resident > 0)
    bounds += ", " + std::to_string(launch.resident);
  std::string clusters = launch.cluster == 1 ? "" : " __cluster_dims__(" + std::to_string(launch.cluster) + ", 1, 1)";
  return "\n" + mapComments() + "extern \"C\" __global__ void" + clusters + " __launch_bounds__(" + bounds +
         ")\n@NAME@(" + wrapList(declared) + ") {\n  " + sharedAssertion(layoutTypes, launch) + "\n" +
         (choice.family->waitsItself ? "" : "  allowDependents();\n  waitForDependencies();\n");
}

Expected<KernelText> KernelAssembler::finish(const Twine &statement, DType dtype, const Twine &extents,
                                             ArrayRef<std::string> layoutTypes) {
  return finish(CodeLine{"  " + statement.str()}, dtype, extents, layoutTypes);
}

Expected<KernelText> KernelAssembler::finish(ArrayRef<CodeLine> statements, DType dtype, const Twine &extents,
                                             ArrayRef<std::string> layoutTypes) {
  if (Error error = checkResults())
    return error;
  KernelText text;
  text.record = describe(dtype, extents.str());
  std::vector<std::string> declared = declareParameters(text);
  if (choice.family->counters)
    text.counters = choice.family->counters(op, choice.tile);
  if (hasMailboxes)
    text.mailboxes = choice.family->mailboxes(op, choice.tile);
  if (hasInboxes)
    text.inbox = choice.family->inbox(op, choice.tile);

  SourceLines source(computed, text);
  source.add("#include \"device/device.cuh\"\n#include \"" + choice.family->header.str() +
             "\"\n\nusing namespace kiln;\n\n" + config() + constantMemory(text.constants));
  for (const CodeLine &line : declarations)
    source.add(line.text + "\n", line.ops);
  source.add(entry(declared, layoutTypes));
  for (const CodeLine &line : statements)
    source.addCall(line.text + "\n", line.ops);
  source.add("}\n");
  return text;
}

} // namespace kiln
