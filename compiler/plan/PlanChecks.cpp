#include "plan/PlanChecks.h"

#include "plan/EntryChecks.h"
#include "plan/FunctionChecks.h"
#include "plan/MapChecks.h"
#include "support/Diagnostic.h"
#include "support/model/TargetName.h"

namespace kiln {

namespace fs = llvm::sys::fs;

namespace {

bool isIdentifier(StringRef name) {
  return !name.empty() && llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// The dims of the plan, and the name for past tokens in formulas of costs.
std::vector<PlanDim> withPast(const Plan &plan) {
  std::vector<PlanDim> dims = plan.dims;
  dims.push_back({pastTokens, 0, plan.model.context});
  return dims;
}

class PlanChecker {
public:
  PlanChecker(const Plan &plan, const ConfigValue &root, std::optional<StringRef> directory)
      : plan(plan), place(root), directory(directory), formulas(plan.dims), costs(withPast(plan)) {}

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
      if (Error error = checkFunction(plan, function, where, formulas, costs, globals))
        return error;
    }
    return checkEntries(plan, place);
  }

private:
  Error checkHeader() const {
    if (!isIdentifier(plan.target))
      return place["target"].fail("expected a target, like sm_90a, got '" + plan.target + "'");
    for (auto [key, targets] : {std::pair("cubins", &plan.cubins), {"ptx", &plan.ptx}})
      if (Error error = checkTargets(place[key], *targets, StringRef(key) == "ptx"))
        return error;
    // The bits of a call may not depend on whether it has run as two halves.
    if (plan.halvedRows != 0 && (plan.ranks == 1 || plan.batchInvariant == 1))
      return place["halved_rows"].fail("expected a plan for several ranks whose bits are the same in any batch");
    for (const auto &[i, token] : llvm::enumerate(plan.model.eosTokens))
      if (token >= plan.model.vocabulary)
        return place["model"]["eos"][i].fail("expected a token id below the vocabulary (" +
                                             Twine(plan.model.vocabulary) + "), got " + Twine(token));
    return Error::success();
  }

  /// Code for sm_90a may use what no later GPU has, so that no PTX is for an architecture with a letter.
  static Error checkTargets(Place where, ArrayRef<std::string> targets, bool arePtx) {
    std::set<std::string> known;
    for (const auto &[i, target] : llvm::enumerate(targets)) {
      bool isGood = isIdentifier(target) && isPtxTarget(target) == arePtx &&
                    (!arePtx || (computeCapability(target) > 0 && llvm::isDigit(target.back())));
      if (!isGood)
        return where[i].fail((arePtx ? "expected a virtual architecture, like compute_80, got '"
                                     : "expected a target, like sm_90a, got '") +
                             target + "'");
      if (!known.insert(target).second)
        return where[i].fail("'" + target + "' is given twice");
    }
    return Error::success();
  }

  Error checkMemory() {
    for (const auto &[i, weight] : llvm::enumerate(plan.weights)) {
      Place where = place["weights"][i];
      Expected<int64_t> bytes = packedSize(weight.recipe);
      if (!bytes)
        return where["shape"].fail(takeDiagnostics(bytes.takeError()).front().message);
      if (!globals.insert({weight.name, {Expr(*bytes), weight.recipe.dtype}}).second)
        return where["name"].fail("'" + weight.name + "' is defined twice");
    }
    for (const auto &[i, state] : llvm::enumerate(plan.states)) {
      Place where = place["states"][i];
      if (Error error = formulas.checkTensor(where, state))
        return error;
      // A call on part of a batch starts at the share of any sequence; the dim of sequences adds no divisor.
      TensorMemory memory = {state.bytes(), state.dtype, knownDivisor(state.bytes(), TensorMemory().alignment)};
      if (!globals.insert({state.name, std::move(memory)}).second)
        return where["name"].fail("'" + state.name + "' is defined twice");
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

  /// Checks a kernel's list of ops. No formula or address depends on it, but people and pages read it.
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

  /// The targets of the plan that have code, and the one that it was made for.
  std::vector<std::string> targets() const {
    std::vector<std::string> all = plan.cubins;
    llvm::append_range(all, plan.ptx);
    all.push_back(plan.target);
    return all;
  }

  /// The targets that a kernel with clusters is for must have them.
  Error checkCluster(Place where, const PlanKernel &kernel) const {
    if (kernel.cluster == 1)
      return Error::success();
    for (const std::string &target : targets())
      if (computeCapability(target) < clusterCapability)
        return where.fail("expected 1 in a plan for " + target + ", as GPUs before sm_" + Twine(clusterCapability) +
                          " have no clusters, got " + Twine(kernel.cluster));
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
      if (Error error = checkArrays(kernel, where["arrays"]))
        return error;
      if (Error error = checkMaps(kernel.maps, where["maps"], formulas))
        return error;
      if (Error error = checkCluster(where["cluster"], kernel))
        return error;
      if (!kernel.maps.empty() && !plan.ptx.empty())
        return where["maps"].fail(
            "expected none in a plan with PTX for later GPUs, as kernels with tensor maps run on " + plan.target +
            " alone");
      for (const auto &[target, use] : kernel.resources)
        if (!llvm::is_contained(plan.cubins, target))
          return where["resources"][target].fail("expected one of the targets in cubins");
      if (Error error = checkFile(where["name"], kernel.name, "kernels/" + kernel.name + ".cu"))
        return error;
      for (const std::string &target : llvm::concat<const std::string>(plan.cubins, plan.ptx))
        if (Error error = checkFile(where["name"], kernel.name, codeFile(target, kernel.name)))
          return error;
    }
    return Error::success();
  }

  const Plan &plan;
  Place place;
  std::optional<StringRef> directory;
  FormulaChecks formulas, costs;
  TensorMemories globals; ///< weights and states
};

} // namespace

Error checkPlan(const Plan &plan, const ConfigValue &root, std::optional<StringRef> directory) {
  return PlanChecker(plan, root, directory).check();
}

} // namespace kiln
