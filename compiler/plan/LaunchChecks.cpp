#include "plan/LaunchChecks.h"

#include "plan/MapChecks.h"
#include "support/model/LaunchLimits.h"

namespace kiln {

namespace {

// Parameters of 8 bytes each, within the 32764 bytes that a kernel's parameters can have.
constexpr size_t maxArguments = 4095;

class LaunchChecker {
public:
  LaunchChecker(const Plan &plan, const PlanStep &step, Place place, const FormulaChecks &formulas,
                const TensorMemories &tensors)
      : plan(plan), step(step), place(place), formulas(formulas), tensors(tensors) {}

  Error check() const {
    if (step.matmul)
      return checkMatmul();
    if (Error error = checkLaunch(place, step.launch))
      return error;
    return checkVariants();
  }

private:
  Error checkLaunch(Place where, const PlanLaunch &launch) const {
    const PlanKernel *kernel = plan.findKernel(launch.kernel);
    if (!kernel)
      return where["kernel"].fail("no kernel '" + launch.kernel + "'");
    if (launch.threads > mostBlockThreads)
      return where["threads"].fail("expected at most " + Twine(mostBlockThreads) + " threads, got " +
                                   Twine(launch.threads));
    if (launch.dynamicShared > maxSharedBytes)
      return where["dynamic_shared"].fail("expected at most " + Twine(maxSharedBytes) + " bytes, got " +
                                          Twine(launch.dynamicShared));
    if (launch.arguments.size() > maxArguments)
      return where["arguments"].fail("expected at most " + Twine(maxArguments) + ", got " +
                                     Twine(launch.arguments.size()));
    if (Error error = checkTensorArguments(launch, *kernel, where["arguments"], formulas, tensors))
      return error;
    if (Error error = checkConstants(where["constants"], launch.constants))
      return error;
    if (Error error = checkGrid(where["grid"], launch))
      return error;
    if (Error error = checkPhases(where["grid"], launch, *kernel))
      return error;
    // A launch of parts of clusters fails.
    if (launch.halfBlocks % kernel->cluster != 0)
      return where["half_blocks"].fail("expected whole clusters of " + Twine(kernel->cluster) + " blocks, got " +
                                       Twine(launch.halfBlocks));
    return formulas.checkMultiple(where["grid"][0], launch.grid[0], kernel->cluster);
  }

  /// There are words for the times of all blocks.
  Error checkPhases(Place where, const PlanLaunch &launch, const PlanKernel &kernel) const {
    if (kernel.phases.empty())
      return Error::success();
    const auto bytes = static_cast<int64_t>(kernel.phases.size() * sizeof(uint32_t));
    const Expr all = launch.grid[0] * launch.grid[1] * launch.grid[2] * Expr(bytes);
    if (Error error = formulas.checkRange(where, all, 0))
      return error;
    return formulas.isNeverMore(all, Expr(step.mailboxes))
               ? Error::success()
               : where.fail("expected mailboxes with a word for each phase of each block, " +
                            formulas.describeMore(all, Expr(step.mailboxes)));
  }

  Error checkConstants(Place where, ArrayRef<PlanConstant> constants) const {
    int64_t bytes = 0;
    for (const PlanConstant &constant : constants) {
      auto weight = llvm::find_if(plan.weights, [&](const auto &other) { return other.name == constant.weight; });
      if (weight == plan.weights.end())
        return where[constant.symbol].fail("no weight '" + constant.weight + "'");
      if (__builtin_add_overflow(bytes, cantFail(packedSize(weight->recipe), "checked before"), &bytes))
        bytes = INT64_MAX;
    }
    return bytes <= mostConstantBytes
               ? Error::success()
               : where.fail("expected at most " + Twine(mostConstantBytes) + " bytes, got " + Twine(bytes));
  }

  /// Each block must have at least one byte of the launch's data for itself. A kernel never needs a grid with more
  /// blocks, and such a grid could occupy a device for ever.
  Error checkGrid(Place where, const PlanLaunch &launch) const {
    Expr blocks(1);
    for (size_t i = 0; i < launch.grid.size(); ++i) {
      if (Error error = formulas.checkRange(where[i], launch.grid[i], 1, mostGridBlocks[i]))
        return error;
      blocks = blocks * launch.grid[i];
    }
    Expr bytes = bytesOf(launch);
    for (const Expr &expr : {blocks, bytes})
      if (Error error = formulas.checkRange(where, expr, 0))
        return error;
    return formulas.isNeverMore(blocks, bytes) ? Error::success()
                                               : where.fail("expected blocks with a byte of the arguments each, " +
                                                            formulas.describeMore(blocks, bytes));
  }

  /// The bytes of all data of the launch; an argument that appears twice counts once.
  Expr bytesOf(const PlanLaunch &launch) const {
    Expr bytes(0);
    std::set<StringRef> names(launch.arguments.begin(), launch.arguments.end());
    for (StringRef name : names)
      if (name == "@workspace")
        bytes = bytes + step.workspace->bytes;
      else if (name == "@mailboxes" || mailboxesOf(name))
        bytes = bytes + Expr(step.mailboxes);
      else if (std::optional<RankBuffer> own = rankBufferOf(name))
        bytes = bytes + tensors.find(own->buffer)->second.bytes;
      else if (name.consume_front("%"))
        bytes = bytes + tensors.find(name)->second.bytes;
    int64_t constants = 0; // few, as has been checked
    for (const PlanConstant &constant : launch.constants)
      constants += *tensors.find(constant.weight)->second.bytes.asConstant();
    return bytes + Expr(constants);
  }

  /// Variants for few tokens come first: those for the fewest tokens, and of these the one for the fewest rows.
  Error checkOrder(Place where, const PlanVariant &variant, const PlanVariant &before) const {
    auto bound = [](int64_t tokens) { return tokens > 0 ? tokens : INT64_MAX; };
    auto text = [](int64_t tokens) { return tokens > 0 ? std::to_string(tokens) : "any number"; };
    if (bound(variant.tokens) < bound(before.tokens))
      return where.fail("expected at least as many tokens as the variant before it has, got " + text(variant.tokens) +
                        " after " + text(before.tokens));
    if (before.tokens == variant.tokens && variant.rows <= before.rows)
      return where["rows"].fail("expected more than the variant before it has, got " + Twine(variant.rows));
    return Error::success();
  }

  Error checkVariants() const {
    if (!step.variants.empty())
      if (Error error = formulas.checkRange(place["rows"], step.rows, 1, INT32_MAX))
        return error;
    if (step.hasTokenBounds() && step.tokens != pastTokens && !formulas.hasDim(step.tokens))
      return place["tokens"].fail("expected a dim of the plan or " + StringRef(pastTokens) + ", got '" + step.tokens +
                                  "'");
    for (const auto &[i, variant] : llvm::enumerate(step.variants)) {
      Place where = place["variants"][i];
      if (i > 0)
        if (Error error = checkOrder(where, variant, step.variants[i - 1]))
          return error;
      if (Error error = checkLaunch(where, variant.launch))
        return error;
    }
    return Error::success();
  }

  //===--- A library's product --------------------------------------------===//

  Error checkMatmul() const {
    const PlanMatmul &matmul = *step.matmul;
    if (step.launch.kernel != libraryMatmulName)
      return place["library"].fail("expected " + libraryMatmulName + ", got '" + step.launch.kernel + "'");
    for (auto [key, dtype] : {std::pair("dtype", matmul.dtype), std::pair("out", matmul.out)})
      if (dtype == DType::I32)
        return place[key].fail("expected a type of floats, got " + dtypeName(dtype));
    if (matmul.gelu && matmul.residual)
      return place["residual"].fail("expected none behind a gelu");
    if (step.launch.arguments.size() != matmul.argumentCount() || step.launch.arguments.back() != "@workspace")
      return place["arguments"].fail("expected " + Twine(matmul.argumentCount()) + ", the last of them @workspace");
    for (auto [key, extent] : {std::pair("rows", &matmul.rows), std::pair("cols", &matmul.cols),
                               std::pair("depth", &matmul.depth), std::pair("batch", &matmul.batch)})
      if (Error error = formulas.checkRange(place[key], *extent, 1, INT32_MAX))
        return error;
    return checkOperands(matmul);
  }

  /// The library does not check sizes: it accesses as much memory as the product needs.
  Error checkOperands(const PlanMatmul &matmul) const {
    Expr element(dtypeSize(matmul.dtype)),
        result = Expr(dtypeSize(matmul.out)) * matmul.batch * matmul.rows * matmul.cols;
    SmallVector<Expr, 5> needed = {element * matmul.batch * matmul.rows * matmul.depth,
                                   element * matmul.batch * matmul.cols * matmul.depth};
    if (matmul.bias)
      needed.push_back(element * matmul.cols);
    if (matmul.residual)
      needed.push_back(result);
    needed.push_back(result);
    for (const auto &[i, bytes] : llvm::enumerate(needed)) {
      Place where = place["arguments"][i];
      StringRef name = step.launch.arguments[i];
      if (!name.consume_front("%"))
        return where.fail("expected the name of a tensor, got '" + name + "'");
      if (Error error = formulas.checkRange(where, bytes, 1))
        return error;
      const Expr &size = tensors.find(name)->second.bytes;
      if (!formulas.isNeverMore(bytes, size))
        return where.fail("the product reaches past '%" + name + "': expected an end of " +
                          formulas.describeMore(bytes, size));
    }
    return Error::success();
  }

  const Plan &plan;
  const PlanStep &step;
  Place place;
  const FormulaChecks &formulas;
  const TensorMemories &tensors;
};

} // namespace

Error checkLaunches(const Plan &plan, const PlanStep &step, Place place, const FormulaChecks &formulas,
                    const TensorMemories &tensors) {
  return LaunchChecker(plan, step, place, formulas, tensors).check();
}

} // namespace kiln
