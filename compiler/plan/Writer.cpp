#include "plan/Plan.h"

namespace kiln {

namespace {

/// Text as a TOML basic string.
std::string quote(StringRef text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += formatv("\\u{0,0+4:X-}", static_cast<int>(c)).str();
    else
      out += c;
  }
  return out + "\"";
}

template <class Range, class Function> std::string list(const Range &items, Function &&print) {
  return "[" + llvm::join(llvm::map_range(items, print), ", ") + "]";
}

std::string quoteExpr(const Expr &expr) { return quote(expr.str()); }

std::string shapeText(ArrayRef<Expr> shape) { return list(shape, quoteExpr); }

std::string extents(ArrayRef<int64_t> shape) {
  return list(shape, [](int64_t extent) { return std::to_string(extent); });
}

class PlanWriter {
public:
  explicit PlanWriter(const Plan &plan) : plan(plan), os(text) {}

  std::string write() {
    writeHeader();
    writeOrigin();
    writeEntries();
    writeWeights();
    writeStates();
    writeKernels();
    for (const PlanFunction &function : plan.functions)
      writeFunction(function);
    return text;
  }

private:
  void writeHeader() {
    os << "# A kernel plan of Kiln. docs/plan.md has the format.\n"
       << "format = " << planFormatVersion << '\n'
       << "compiler = " << quote(plan.compilerVersion) << '\n'
       << "nvrtc = " << quote(plan.nvrtcVersion) << '\n'
       << "source_hash = " << quote(plan.sourceHash) << '\n'
       << "target = " << quote(plan.target) << '\n'
       << (plan.batchInvariant == 1 ? "" : "batch_invariant = " + std::to_string(plan.batchInvariant) + "\n")
       << (plan.ranks == 1 ? "" : "ranks = " + std::to_string(plan.ranks) + "\n")
       << (plan.halvedRows == 0 ? "" : "halved_rows = " + std::to_string(plan.halvedRows) + "\n")
       << (plan.strategy.empty() ? "" : "strategy = " + quote(plan.strategy) + "\n")
       << (plan.stepByStep ? "step_by_step = true\n" : "") << (plan.weightsFirst ? "weights_first = true\n" : "")
       << (plan.serial ? "serial = true\n" : "") << "cubins = " << list(plan.cubins, quote) << '\n'
       << (plan.ptx.empty() ? "" : "ptx = " + list(plan.ptx, quote) + "\n")
       << "dtype = " << quote(dtypeName(plan.dtype)) << '\n'
       << "\n[model]\n"
       << "name = " << quote(plan.model.name) << '\n'
       << "context = " << plan.model.context << '\n'
       << "vocabulary = " << plan.model.vocabulary << '\n'
       << "layers = " << plan.model.layers << '\n'
       << "eos = " << extents(plan.model.eosTokens) << '\n'
       << "\n[dims]\n";
    for (const PlanDim &dim : plan.dims)
      os << dim.name << " = [" << dim.min << ", " << dim.max << "]\n";
  }

  void writeOrigin() {
    if (!plan.origin)
      return;
    os << "\n# Where the weights and the vocabulary are, relative to this directory unless absolute.\n[origin]\n"
       << "path = " << quote(plan.origin->path) << '\n';
    for (auto [key, digest] : {std::pair("weights", &plan.origin->weights), {"vocabulary", &plan.origin->vocabulary}})
      if (!digest->empty())
        os << key << " = " << quote(*digest) << '\n';
  }

  void writeEntries() {
    PlanEntries entries = plan.entries;
    if (entries.empty())
      return;
    os << "\n# What a runtime calls: which argument is what, and where the results are.\n[entries]\n"
       << "batch = " << quote(entries.batch) << "\ntokens = " << quote(entries.tokens) << '\n';
    entries.forEach([&](Entry entry, auto &names) { writeEntry(entry, names); });
  }

  template <class Names> void writeEntry(Entry entry, std::optional<Names> &names) {
    if (!names)
      return;
    auto assign = [](const auto &name) { return (name.first + " = " + quote(*name.second)).str(); };
    os << entryName(entry) << " = {" << llvm::join(llvm::map_range(namesOf(*names), assign), ", ") << "}\n";
  }

  void writeWeights() {
    os << "\n# Packed weights: what becomes of which tensor of the checkpoint.\n";
    for (const PlanWeight &weight : plan.weights) {
      const WeightRecipe &recipe = weight.recipe;
      os << "[[weights]]\nname = " << quote(weight.name) << "\ndtype = " << quote(dtypeName(recipe.dtype))
         << "\nshape = " << extents(recipe.shape) << "\nsource = " << quote(recipe.source)
         << "\nsource_shape = " << extents(recipe.sourceShape) << '\n';
      if (recipe.split)
        os << "split = " << splitText(*recipe.split) << '\n';
      if (recipe.scale)
        os << "scale = " << quote(*recipe.scale) << '\n';
      if (recipe.add)
        os << "add = {vector = " << quote(recipe.add->vector) << ", matrix = " << quote(recipe.add->matrix)
           << ", matrix_shape = " << extents(recipe.add->matrixShape) << "}\n";
      if (recipe.sum)
        os << "sum = " << quote(dtypeName(*recipe.sum)) << '\n';
      if (recipe.transpose)
        os << "transpose = true\n";
      if (recipe.pad)
        os << "pad = true\n";
    }
  }

  static std::string splitText(const RankSplit &split) {
    return "{rows = " + std::string(split.ofRows ? "true" : "false") + ", unit = " + std::to_string(split.unit) +
           ", parts = " + std::to_string(split.parts) + "}";
  }

  void writeStates() {
    os << "\n# Memory that stays from call to call.\n";
    for (const PlanTensor &state : plan.states)
      os << "[[states]]\nname = " << quote(state.name) << "\ndtype = " << quote(dtypeName(state.dtype))
         << "\nshape = " << shapeText(state.shape) << '\n';
  }

  void writeKernels() {
    os << "\n# Kernels, with what ptxas says of each target.\n";
    for (const PlanKernel &kernel : plan.kernels) {
      os << "[[kernels]]\nname = " << quote(kernel.name) << "\nfamily = " << quote(kernel.family)
         << "\ntitle = " << quote(kernel.title) << "\ndtype = " << quote(dtypeName(kernel.dtype))
         << "\nextents = " << quote(kernel.extents) << '\n';
      if (kernel.rows != 0)
        os << "rows = " << kernel.rows << '\n';
      if (kernel.number != 1)
        os << "number = " << kernel.number << '\n';
      if (kernel.cluster != 1)
        os << "cluster = " << kernel.cluster << '\n';
      if (!kernel.phases.empty())
        os << "phases = " << list(kernel.phases, [](const std::string &name) { return quote(name); }) << '\n';
      writeOps(kernel.ops);
      writeMaps(kernel.maps);
      if (!kernel.arrays.empty())
        os << "arrays = " << list(kernel.arrays, [](const PlanArray &array) {
          return "{argument = " + std::to_string(array.argument) + ", size = " + std::to_string(array.size) + "}";
        }) << '\n';
      for (const auto &[target, use] : kernel.resources)
        os << "resources." << target << " = {registers = " << use.registers << ", shared = " << use.sharedBytes
           << ", stack = " << use.stackBytes << ", spill_stores = " << use.spillStores
           << ", spill_loads = " << use.spillLoads << "}\n";
    }
  }

  void writeOps(ArrayRef<PlanKernelOp> ops) {
    if (ops.empty())
      return;
    os << "ops = [\n";
    for (const PlanKernelOp &op : ops)
      os << "  {value = " << quote(op.value) << ", op = " << quote(op.op) << ", lines = " << extents(op.lines)
         << "},\n";
    os << "]\n";
  }

  void writeMaps(ArrayRef<PlanTensorMap> maps) {
    if (maps.empty())
      return;
    os << "maps = [\n";
    for (const PlanTensorMap &map : maps)
      os << "  {argument = " << map.argument << ", dtype = " << quote(dtypeName(map.dtype))
         << ", extents = " << shapeText(map.extents) << ", strides = " << shapeText(map.strides)
         << ", box = " << shapeText(map.box) << "},\n";
    os << "]\n";
  }

  void writeFunction(const PlanFunction &function) {
    os << "\n[[functions]]\nname = " << quote(function.name) << '\n';
    if (function.sequences != 0)
      os << "sequences = " << function.sequences << '\n';
    os << "arena = " << quoteExpr(function.arena) << "\nlive = " << quoteExpr(function.live)
       << "\nresults = " << list(function.results, [](const std::string &name) { return quote(name); })
       << "\narguments = [\n";
    for (const PlanTensor &argument : function.arguments)
      os << "  {name = " << quote(argument.name) << ", dtype = " << quote(dtypeName(argument.dtype))
         << ", shape = " << shapeText(argument.shape) << "},\n";
    os << "]\nbuffers = [\n";
    for (const PlanBuffer &buffer : function.buffers)
      os << "  {name = " << quote(buffer.tensor.name) << ", dtype = " << quote(dtypeName(buffer.tensor.dtype))
         << ", shape = " << shapeText(buffer.tensor.shape) << ", offset = " << quoteExpr(buffer.offset) << ", live = ["
         << buffer.first << ", " << buffer.last << "]},\n";
    os << "]\nsteps = [\n";
    for (const PlanStep &step : function.steps)
      writeStep(step);
    os << "]\n";
  }

  void writeStep(const PlanStep &step) {
    os << "  {" << (step.matmul ? matmulText(*step.matmul) : launchText(step.launch))
       << argumentsText(step.launch.arguments);
    if (step.workspace)
      os << ", workspace = {offset = " << quoteExpr(step.workspace->offset)
         << ", bytes = " << quoteExpr(step.workspace->bytes) << "}";
    if (step.counters.asConstant() != 0)
      os << ", counters = " << quoteExpr(step.counters);
    if (step.mailboxes != 0)
      os << ", mailboxes = " << step.mailboxes;
    if (step.inbox != 0)
      os << ", inbox = " << step.inbox;
    os << ", bytes = " << quoteExpr(step.bytes) << ", flops = " << quoteExpr(step.flops)
       << ", location = " << quote(step.location);
    if (!step.variants.empty())
      os << ", rows = " << quoteExpr(step.rows)
         << (step.hasTokenBounds() ? ", tokens = " + quote(step.tokens) : std::string()) << ", variants = "
         << list(step.variants, [&](const PlanVariant &variant) { return variantText(step, variant); });
    os << "},\n";
  }

  static std::string argumentsText(ArrayRef<std::string> arguments) {
    return ", arguments = " + list(arguments, [](const std::string &name) { return quote(name); });
  }

  static std::string variantText(const PlanStep &step, const PlanVariant &variant) {
    bool hasOwn = variant.launch.arguments != step.launch.arguments;
    std::string tokens = variant.tokens > 0 ? "tokens = " + std::to_string(variant.tokens) + ", " : "";
    return "{" + tokens + "rows = " + std::to_string(variant.rows) + ", " + launchText(variant.launch) +
           (hasOwn ? argumentsText(variant.launch.arguments) : "") + "}";
  }

  static std::string matmulText(const PlanMatmul &matmul) {
    std::string text = "library = " + quote(libraryMatmulName) + ", rows = " + quoteExpr(matmul.rows) +
                       ", cols = " + quoteExpr(matmul.cols) + ", depth = " + quoteExpr(matmul.depth);
    if (matmul.batch.asConstant() != 1)
      text += ", batch = " + quoteExpr(matmul.batch);
    text += ", dtype = " + quote(dtypeName(matmul.dtype));
    if (matmul.out != matmul.dtype)
      text += ", out = " + quote(dtypeName(matmul.out));
    for (auto [name, isThere] : {std::pair("untransposed", matmul.untransposed),
                                 {"bias", matmul.bias},
                                 {"gelu", matmul.gelu},
                                 {"residual", matmul.residual}})
      if (isThere)
        text += std::string(", ") + name + " = true";
    return text;
  }

  static std::string constantText(const PlanConstant &constant) {
    return constant.symbol + " = " + quote(constant.weight);
  }

  static std::string launchText(const PlanLaunch &launch) {
    std::string text = "kernel = " + quote(launch.kernel) + ", grid = " + shapeText(launch.grid) +
                       ", threads = " + std::to_string(launch.threads);
    if (launch.dynamicShared)
      text += ", dynamic_shared = " + std::to_string(launch.dynamicShared);
    if (launch.cooperative)
      text += ", cooperative = true";
    if (launch.halfBlocks)
      text += ", half_blocks = " + std::to_string(launch.halfBlocks);
    if (launch.constants.empty())
      return text;
    return text + ", constants = {" + llvm::join(llvm::map_range(launch.constants, constantText), ", ") + "}";
  }

  const Plan &plan;
  std::string text;
  raw_string_ostream os;
};

} // namespace

std::string writePlan(const Plan &plan) { return PlanWriter(plan).write(); }

} // namespace kiln
