#include "plan/PlanChecks.h"

#include "plan/EntryChecks.h"
#include "plan/PlanPlaces.h"
#include "support/Diagnostic.h"

namespace kiln {

namespace fs = llvm::sys::fs;

//===----------------------------------------------------------------------===//
// One function
//===----------------------------------------------------------------------===//

namespace {

// What any GPU can launch; shared memory is the most that a block of any target can have.
constexpr int64_t maxGrid[] = {INT32_MAX, 65535, 65535};
constexpr int64_t maxSharedBytes = 227 * 1024;
constexpr int64_t maxConstantBytes = 64 * 1024;
// Kernels load 16 bytes at a time.
constexpr int64_t alignment = 16;

/// Bytes of the arena, at one point of the dims.
struct Stretch {
  int64_t begin = 0, end = 0;

  bool overlaps(const Stretch &other) const { return begin < other.end && other.begin < end; }
};

class FunctionChecker {
public:
  FunctionChecker(const Plan &plan, const PlanFunction &function, Place place, const DimPoints &points,
                  const DimPoints &costPoints, const std::set<std::string> &globals)
      : plan(plan), function(function), place(place), points(points), costPoints(costPoints), addresses(globals) {}

  Error check() {
    for (const auto &[i, argument] : llvm::enumerate(function.arguments))
      if (Error error = checkTensor(place["arguments"][i], argument))
        return error;
    for (auto [key, expr] : {std::pair("arena", &function.arena), std::pair("live", &function.live)})
      if (Error error = points.check(place[key], *expr, 0))
        return error;
    for (size_t i = 0; i < function.buffers.size(); ++i)
      if (Error error = checkBuffer(i))
        return error;
    for (size_t i = 0; i < function.results.size(); ++i)
      if (Error error = checkResult(i))
        return error;
    for (const DimBinding &dims : points.all())
      if (Error error = checkArena(dims))
        return error;
    for (size_t i = 0; i < function.steps.size(); ++i)
      if (Error error = checkStep(i))
        return error;
    return Error::success();
  }

private:
  Error checkTensor(Place where, const PlanTensor &tensor) {
    if (!addresses.insert(tensor.name).second)
      return where["name"].fail("'" + tensor.name + "' is defined twice");
    return points.check(where, tensor);
  }

  Error checkBuffer(size_t i) {
    const PlanBuffer &buffer = function.buffers[i];
    Place where = place["buffers"][i];
    if (Error error = checkTensor(where, buffer.tensor))
      return error;
    buffers[buffer.tensor.name] = &buffer;
    // checkArena looks at neighbours in time only.
    if (i > 0 && buffer.first < function.buffers[i - 1].first)
      return where["live"].fail("expected buffers in the order of their first step");
    auto stepCount = static_cast<int64_t>(function.steps.size());
    if (buffer.first >= stepCount || buffer.last > stepCount)
      return where["live"].fail("expected steps of the " + Twine(stepCount) + " there are, got [" +
                                Twine(buffer.first) + ", " + Twine(buffer.last) + "]");
    if (Error error = points.check(where["offset"], buffer.offset, 0))
      return error;
    return points.check(where["offset"], buffer.offset + buffer.tensor.bytes(), 0);
  }

  Error checkResult(size_t i) {
    Place where = place["results"][i];
    auto buffer = buffers.find(function.results[i]);
    if (!addresses.contains(function.results[i]))
      return where.fail("'" + function.results[i] + "' is not defined");
    if (buffer != buffers.end() && buffer->second->last != static_cast<int64_t>(function.steps.size()))
      return where.fail("expected a buffer that is live to the end, got '" + function.results[i] + "'");
    return Error::success();
  }

  Error checkStretch(Place where, StringRef what, const Stretch &stretch, const DimBinding &dims) const {
    int64_t arena = checkedValue(function.arena, dims);
    if (stretch.begin % alignment != 0)
      return where["offset"].fail("expected a multiple of " + Twine(alignment) + ", got " + Twine(stretch.begin) +
                                  describePoint(dims));
    if (stretch.end > arena)
      return where["offset"].fail(what + " reaches past the arena: expected an end of at most " + Twine(arena) +
                                  ", got " + Twine(stretch.end) + describePoint(dims));
    return Error::success();
  }

  /// Buffers lie inside the arena, and those that are live together lie apart.
  Error checkArena(const DimBinding &dims) const {
    std::vector<Stretch> stretches;
    for (const auto &[i, buffer] : llvm::enumerate(function.buffers)) {
      int64_t begin = checkedValue(buffer.offset, dims);
      stretches.push_back({begin, begin + checkedValue(buffer.tensor.bytes(), dims)});
      Place where = place["buffers"][i];
      if (Error error = checkStretch(where, "buffer '" + buffer.tensor.name + "'", stretches[i], dims))
        return error;
    }
    for (size_t i = 0; i < stretches.size(); ++i) {
      const PlanBuffer &buffer = function.buffers[i];
      for (size_t j = i + 1; j < stretches.size() && function.buffers[j].first <= buffer.last; ++j)
        if (stretches[i].overlaps(stretches[j]))
          return place["buffers"][j]["offset"].fail("buffer '" + function.buffers[j].tensor.name + "' overlaps '" +
                                                    buffer.tensor.name + "' while both are live" + describePoint(dims));
    }
    return Error::success();
  }

  //===--- Steps ----------------------------------------------------------===//

  Error checkLaunch(Place where, const PlanLaunch &launch) const {
    if (!plan.findKernel(launch.kernel))
      return where["kernel"].fail("no kernel '" + launch.kernel + "'");
    for (size_t i = 0; i < launch.grid.size(); ++i)
      if (Error error = points.check(where["grid"][i], launch.grid[i], 1, maxGrid[i]))
        return error;
    if (launch.threads > 1024)
      return where["threads"].fail("expected at most 1024 threads, got " + Twine(launch.threads));
    if (launch.dynamicShared > maxSharedBytes)
      return where["dynamic_shared"].fail("expected at most " + Twine(maxSharedBytes) + " bytes, got " +
                                          Twine(launch.dynamicShared));
    return checkConstants(where["constants"], launch.constants);
  }

  Error checkConstants(Place where, ArrayRef<PlanConstant> constants) const {
    int64_t bytes = 0;
    for (const PlanConstant &constant : constants) {
      auto weight = llvm::find_if(plan.weights, [&](const auto &other) { return other.name == constant.weight; });
      if (weight == plan.weights.end())
        return where[constant.symbol].fail("no weight '" + constant.weight + "'");
      bytes += cantFail(packedSize(weight->recipe), "checked before");
    }
    return bytes <= maxConstantBytes
               ? Error::success()
               : where.fail("expected at most " + Twine(maxConstantBytes) + " bytes, got " + Twine(bytes));
  }

  Error checkMatmul(Place where, const PlanStep &step) const {
    const PlanMatmul &matmul = *step.matmul;
    if (step.launch.kernel != libraryMatmulName)
      return where["library"].fail("expected " + libraryMatmulName + ", got '" + step.launch.kernel + "'");
    for (auto [key, dtype] : {std::pair("dtype", matmul.dtype), std::pair("out", matmul.out)})
      if (dtype == DType::I32)
        return where[key].fail("expected a type of floats, got " + dtypeName(dtype));
    if (matmul.gelu && matmul.residual)
      return where["residual"].fail("expected none behind a gelu");
    if (!step.workspace)
      return where.fail("expected a workspace");
    if (step.launch.arguments.size() != matmul.argumentCount() || step.launch.arguments.back() != "@workspace")
      return where["arguments"].fail("expected " + Twine(matmul.argumentCount()) + ", the last of them @workspace");
    for (auto [key, extent] : {std::pair("rows", &matmul.rows), std::pair("cols", &matmul.cols),
                               std::pair("depth", &matmul.depth), std::pair("batch", &matmul.batch)})
      if (Error error = points.check(where[key], *extent, 1, INT32_MAX))
        return error;
    return Error::success();
  }

  Error checkVariants(Place where, const PlanStep &step, size_t at) const {
    if (!step.variants.empty())
      if (Error error = points.check(where["rows"], step.rows, 1, INT32_MAX))
        return error;
    for (const auto &[i, variant] : llvm::enumerate(step.variants)) {
      Place own = where["variants"][i];
      if (i > 0 && variant.rows <= step.variants[i - 1].rows)
        return own["rows"].fail("expected more than the variant before it has, got " + Twine(variant.rows));
      if (Error error = checkLaunch(own, variant.launch))
        return error;
      if (Error error = checkArguments(own, step, at, variant.launch.arguments))
        return error;
    }
    return Error::success();
  }

  Error checkStep(size_t i) const {
    const PlanStep &step = function.steps[i];
    Place where = place["steps"][i];
    if (Error error = step.matmul ? checkMatmul(where, step) : checkLaunch(where, step.launch))
      return error;
    if (Error error = checkVariants(where, step, i))
      return error;
    if (Error error = points.check(where["counters"], step.counters, 0, INT32_MAX))
      return error;
    for (auto [key, expr] : {std::pair("bytes", &step.bytes), std::pair("flops", &step.flops)})
      if (Error error = costPoints.check(where[key], *expr, 0))
        return error;
    if (Error error = checkWorkspace(where["workspace"], i))
      return error;
    return checkArguments(where, step, i, step.launch.arguments);
  }

  Error checkArguments(Place where, const PlanStep &step, size_t at, ArrayRef<std::string> arguments) const {
    for (const auto &[i, argument] : llvm::enumerate(arguments))
      if (Error error = checkArgument(where["arguments"][i], step, at, argument))
        return error;
    return Error::success();
  }

  /// Scratch is a buffer that lives for one step.
  Error checkWorkspace(Place where, size_t i) const {
    const std::optional<PlanWorkspace> &workspace = function.steps[i].workspace;
    if (!workspace)
      return Error::success();
    if (Error error = points.check(where["bytes"], workspace->bytes, 0))
      return error;
    for (const Expr &expr : {workspace->offset, workspace->offset + workspace->bytes})
      if (Error error = points.check(where["offset"], expr, 0))
        return error;
    for (const DimBinding &dims : points.all()) {
      int64_t begin = checkedValue(workspace->offset, dims);
      Stretch stretch{begin, begin + checkedValue(workspace->bytes, dims)};
      if (Error error = checkStretch(where, "workspace", stretch, dims))
        return error;
      for (const PlanBuffer &buffer : function.buffers) {
        int64_t start = checkedValue(buffer.offset, dims);
        bool isLive = buffer.first <= static_cast<int64_t>(i) && static_cast<int64_t>(i) <= buffer.last;
        if (isLive && stretch.overlaps({start, start + checkedValue(buffer.tensor.bytes(), dims)}))
          return where["offset"].fail("workspace overlaps buffer '" + buffer.tensor.name + "', which is live" +
                                      describePoint(dims));
      }
    }
    return Error::success();
  }

  Error checkArgument(Place where, const PlanStep &step, size_t stepIndex, StringRef argument) const {
    StringRef name = argument;
    bool isKnown = name.consume_front("%") ? addresses.contains(name.str())
                                           : (name == "@workspace" && step.workspace) ||
                                                 (name == "@counters" && step.counters.asConstant() != 0) ||
                                                 points.all().front().count(name.str());
    if (!isKnown)
      return where.fail("'" + argument + "' is not defined");
    auto buffer = buffers.find(name);
    auto at = static_cast<int64_t>(stepIndex);
    if (argument != name && buffer != buffers.end() && (at < buffer->second->first || at > buffer->second->last))
      return where.fail("buffer '" + argument + "' is not live at step " + Twine(at));
    return Error::success();
  }

  const Plan &plan;
  const PlanFunction &function;
  Place place;
  const DimPoints &points, &costPoints;
  std::set<std::string> addresses; ///< names of all that has one: weights, states, arguments, buffers
  std::map<std::string, const PlanBuffer *, std::less<>> buffers;
};

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

bool isIdentifier(StringRef name) {
  return !name.empty() && llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// The names in formulas of costs. No model's context comes near the bound.
std::vector<PlanDim> withPast(std::vector<PlanDim> dims) {
  dims.push_back({pastTokens, 0, 1 << 24});
  return dims;
}

class PlanChecker {
public:
  PlanChecker(const Plan &plan, const ConfigValue &root, std::optional<StringRef> directory)
      : plan(plan), place(root), directory(directory), points(plan.dims), costPoints(withPast(plan.dims)) {}

  Error check() {
    if (Error error = checkHeader())
      return error;
    if (Error error = checkMemory())
      return error;
    if (Error error = checkKernels())
      return error;
    std::set<std::string> functions;
    for (const auto &[i, function] : llvm::enumerate(plan.functions)) {
      Place where = place["functions"][i];
      if (!functions.insert(function.name).second)
        return where["name"].fail("function '" + function.name + "' is defined twice");
      if (Error error = FunctionChecker(plan, function, where, points, costPoints, globals).check())
        return error;
    }
    return checkEntries(plan, place);
  }

private:
  Error checkHeader() const {
    if (!isIdentifier(plan.target))
      return place["target"].fail("expected a target, like sm_90a, got '" + plan.target + "'");
    std::set<std::string> targets;
    for (const auto &[i, target] : llvm::enumerate(plan.cubins)) {
      if (!isIdentifier(target))
        return place["cubins"][i].fail("expected a target, like sm_90a, got '" + target + "'");
      if (!targets.insert(target).second)
        return place["cubins"][i].fail("'" + target + "' is given twice");
    }
    for (const auto &[i, token] : llvm::enumerate(plan.model.eosTokens))
      if (token >= plan.model.vocabulary)
        return place["model"]["eos"][i].fail("expected a token id below the vocabulary (" +
                                             Twine(plan.model.vocabulary) + "), got " + Twine(token));
    return Error::success();
  }

  Error checkMemory() {
    for (const auto &[i, weight] : llvm::enumerate(plan.weights)) {
      Place where = place["weights"][i];
      if (!globals.insert(weight.name).second)
        return where["name"].fail("'" + weight.name + "' is defined twice");
      if (Expected<int64_t> bytes = packedSize(weight.recipe); !bytes)
        return where["shape"].fail(takeDiagnostics(bytes.takeError()).front().message);
    }
    for (const auto &[i, state] : llvm::enumerate(plan.states)) {
      Place where = place["states"][i];
      if (!globals.insert(state.name).second)
        return where["name"].fail("'" + state.name + "' is defined twice");
      if (Error error = points.check(where, state))
        return error;
    }
    return Error::success();
  }

  /// Error: the directory has no such file.
  Error checkFile(Place where, const std::string &kernel, const std::string &name) const {
    if (!directory)
      return Error::success();
    SmallString<128> file(*directory);
    llvm::sys::path::append(file, name);
    return fs::is_regular_file(file) ? Error::success()
                                     : where.fail("the file " + file + " of kernel '" + kernel + "' is missing");
  }

  /// What a kernel says of its ops: no formula or address depends on it, but people and pages read it.
  static Error checkOps(Place where, const PlanKernel &kernel) {
    std::set<StringRef> values;
    for (const auto &[i, op] : llvm::enumerate(kernel.ops)) {
      if (!isIdentifier(op.value))
        return where[i]["value"].fail("expected an identifier, got '" + op.value + "'");
      if (!values.insert(op.value).second)
        return where[i]["value"].fail("'" + op.value + "' is defined twice");
    }
    return Error::success();
  }

  Error checkKernels() const {
    std::set<std::string> names;
    for (const auto &[i, kernel] : llvm::enumerate(plan.kernels)) {
      Place where = place["kernels"][i];
      if (!isIdentifier(kernel.name))
        return where["name"].fail("expected an identifier, got '" + kernel.name + "'");
      if (!names.insert(kernel.name).second)
        return where["name"].fail("kernel '" + kernel.name + "' is defined twice");
      if (Error error = checkOps(where["ops"], kernel))
        return error;
      for (const auto &[target, use] : kernel.resources)
        if (!llvm::is_contained(plan.cubins, target))
          return where["resources"][target].fail("expected one of the targets in cubins");
      if (Error error = checkFile(where["name"], kernel.name, "kernels/" + kernel.name + ".cu"))
        return error;
      for (const std::string &target : plan.cubins)
        if (Error error = checkFile(where["name"], kernel.name, "cubin/" + target + "/" + kernel.name + ".cubin"))
          return error;
    }
    return Error::success();
  }

  const Plan &plan;
  Place place;
  std::optional<StringRef> directory;
  DimPoints points, costPoints;
  std::set<std::string> globals;
};

} // namespace

Error checkPlan(const Plan &plan, const ConfigValue &root, std::optional<StringRef> directory) {
  return PlanChecker(plan, root, directory).check();
}

} // namespace kiln
