// What generation and scoring take for granted of a plan: its dims, and the shapes of what they pass and get.
#include "runtime/generation/PlanModel.h"

#include "sample/state.cuh"
#include "support/Diagnostic.h"

namespace kiln {

namespace {

using Shape = SmallVector<Expr, 3>;

std::string shapeText(ArrayRef<Expr> shape) {
  return "[" + llvm::join(llvm::map_range(shape, [](const Expr &extent) { return extent.str(); }), ",") + "]";
}

std::string typeText(DType dtype, ArrayRef<Expr> shape) { return (dtypeName(dtype) + shapeText(shape)).str(); }

Error refuse(const PlanFunction &function, const Twine &message) {
  return makeError("the plan is of no language model: @" + function.name + ": " + message);
}

/// Integers that are passed.
struct Passed {
  StringRef name;
  Shape shape;
};

class ModelChecker {
public:
  explicit ModelChecker(const Plan &plan) : plan(plan) {}

  Error check(ArrayRef<std::string> functions) const {
    if (!hasDims())
      return makeError("the plan is of no language model: expected dims B and T from 1, T up to the context of " +
                       Twine(plan.model.context));
    for (const std::string &name : functions) {
      const PlanFunction *function = plan.findFunction(name);
      if (!function)
        return makeError("the plan has no function @" + name);
      if (Error error = checkFunction(*function))
        return error;
    }
    const PlanFunction *sample = plan.findFunction("sample");
    return sample ? checkSample(*sample) : Error::success();
  }

private:
  bool hasDims() const {
    auto find = [&](StringRef name) {
      return llvm::find_if(plan.dims, [&](const auto &dim) { return dim.name == name; });
    };
    auto sequences = find("B"), length = find("T");
    return plan.dims.size() == 2 && sequences != plan.dims.end() && sequences->min == 1 && length != plan.dims.end() &&
           length->min == 1 && length->max >= plan.model.context;
  }

  Error checkFunction(const PlanFunction &function) const {
    std::vector<Passed> passed;
    if (function.name == "prefill")
      passed = {{"tokens", {batch, tokens}}, {"lengths", {batch}}};
    else if (function.name == "decode")
      passed = {{"tokens", {batch, one}}, {"positions", {batch}}};
    else
      passed = {{"tokens", {batch, tokens}}};
    if (Error error = checkArguments(function, passed))
      return error;
    return checkLogits(function, {batch, function.name == "score" ? tokens : one, Expr(plan.model.vocabulary)});
  }

  static Error checkArguments(const PlanFunction &function, ArrayRef<Passed> passed) {
    for (const PlanTensor &argument : function.arguments) {
      auto own = llvm::find_if(passed, [&](const Passed &one) { return one.name == argument.name; });
      if (own == passed.end())
        return refuse(function, "argument %" + argument.name + ": expected none of that name");
      if (argument.dtype != DType::I32 || argument.shape != own->shape)
        return refuse(function, "argument %" + argument.name + ": expected " + typeText(DType::I32, own->shape) +
                                    ", got " + typeText(argument.dtype, argument.shape));
    }
    for (const Passed &one : passed)
      if (llvm::none_of(function.arguments, [&](const PlanTensor &own) { return own.name == one.name; }))
        return refuse(function, "expected an argument %" + one.name);
    return Error::success();
  }

  Error checkLogits(const PlanFunction &function, const Shape &shape) const {
    std::string wanted = "expected logits " + shapeText(shape) + " as the first result";
    if (function.results.empty())
      return refuse(function, wanted + ", got no result");
    auto isResult = [&](const PlanBuffer &buffer) { return buffer.tensor.name == function.results[0]; };
    auto result = llvm::find_if(function.buffers, isResult);
    if (result == function.buffers.end())
      return refuse(function, wanted + ", got '" + function.results[0] + "', which is no buffer");
    const PlanTensor &logits = result->tensor;
    if (logits.dtype == DType::I32 || logits.shape != shape)
      return refuse(function, wanted + ", got " + typeText(logits.dtype, logits.shape));
    // Rows of logits are handed on as they are.
    if (logits.dtype != DType::F32 && plan.findFunction("sample"))
      return refuse(function, wanted + " of f32, which @sample reads, got " + dtypeName(logits.dtype));
    return Error::success();
  }

  /// Of its arguments what others share with it; the rest is the kernel's own, a row for each sequence.
  Error checkSample(const PlanFunction &sample) const {
    const int64_t word = dtypeSize(DType::I32);
    const std::map<StringRef, Shape> shared = {
        {"tokens", {batch, one}},
        {"positions", {batch}},
        {"logits", {batch, Expr(plan.model.vocabulary)}},
        {"settings", {Expr(static_cast<int64_t>(sizeof(SamplingSettings)) / word)}},
        {"rows", {batch, Expr(static_cast<int64_t>(sizeof(SamplingRow)) / word)}}};
    for (const PlanTensor &argument : sample.arguments) {
      auto own = shared.find(argument.name);
      DType dtype = argument.name == "logits" ? DType::F32 : DType::I32;
      if (own != shared.end() && (argument.dtype != dtype || argument.shape != own->second))
        return refuse(sample, "argument %" + argument.name + ": expected " + typeText(dtype, own->second) + ", got " +
                                  typeText(argument.dtype, argument.shape));
      bool isRow = !argument.shape.empty() && argument.shape.front() == batch &&
                   llvm::all_of(ArrayRef(argument.shape).drop_front(),
                                [](const Expr &extent) { return extent.asConstant().has_value(); });
      if (own == shared.end() && !isRow)
        return refuse(sample, "argument %" + argument.name + ": expected a shape [B,…] with numbers behind B, got " +
                                  shapeText(argument.shape));
    }
    return Error::success();
  }

  const Plan &plan;
  const Expr batch = Expr::name("B"), tokens = Expr::name("T"), one = 1;
};

} // namespace

Error PlanModel::check(const Plan &plan, ArrayRef<std::string> functions) {
  return ModelChecker(plan).check(functions);
}

} // namespace kiln
