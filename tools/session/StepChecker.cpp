#include "tools/session/StepChecker.h"

#include "ops/Region.h"
#include "support/Diagnostic.h"
#include "support/text/Number.h"

#include <cmath>

namespace kiln {

/// `value` rounded to a dtype.
static float rounded(float value, DType dtype) {
  switch (dtype) {
  case DType::F16:
    return fromF16(toF16(value));
  case DType::BF16:
    return fromBF16(toBF16(value));
  default:
    return value;
  }
}

/// Loads weights rounded as on the device.
static WeightLoader<float> roundingLoader(WeightLoader<float> load) {
  return [load = std::move(load)](const Value &weight, int64_t rank) -> Expected<Tensor<float>> {
    Expected<Tensor<float>> exact = load(weight, rank);
    if (!exact || weight.type.dtype == DType::F32)
      return exact;
    Tensor<float> tensor(exact->shape());
    llvm::transform(exact->elements(), tensor.data(), [&](float value) { return rounded(value, weight.type.dtype); });
    return tensor;
  };
}

StepChecker::StepChecker(const Module &module, WeightLoader<float> loadWeight, Executor &executor)
    : evaluator(module, roundingLoader(std::move(loadWeight))), executor(executor) {}

void StepChecker::attach() {
  executor.setObserver({[this](const Executor::Call &call) { return onCall(call); },
                        [this](const PlanFunction &function, size_t step, double) { return onStep(function, step); }});
}

static SmallVector<int64_t, 4> shapeOf(const PlanTensor &tensor, const DimBinding &dims) {
  SmallVector<int64_t, 4> shape;
  for (const Expr &extent : tensor.shape)
    shape.push_back(cantFail(extent.evaluate(dims), "the executor has checked the dims"));
  return shape;
}

Error StepChecker::onCall(const Executor::Call &call) {
  const PlanFunction &function = executor.plan().function(call.entry);
  if (Error error = takeStates(call))
    return error;
  arguments.clear();
  actual.clear();
  for (const PlanTensor &argument : function.arguments) {
    Tensor<float> &tensor = arguments.emplace_back(shapeOf(argument, call.dims));
    auto given = llvm::find_if(call.arguments, [&](const auto &entry) { return entry.first == argument.name; });
    std::copy(given->second.begin(), given->second.end(), tensor.data());
  }
  return Error::success();
}

/// Copies the device's states into the reference: since the last call rows may have moved, or the batch may have
/// shrunk.
Error StepChecker::takeStates(const Executor::Call &call) {
  for (const PlanTensor &state : executor.plan().states) {
    Tensor<float> tensor(shapeOf(state, call.dims));
    if (Error error = executor.download(state.name, 0, MutableArrayRef(tensor.data(), tensor.elements().size())))
      return error;
    evaluator.setState(state.name, std::move(tensor));
  }
  return Error::success();
}

/// Downloads the step's results at once: later steps may reuse their memory.
Error StepChecker::onStep(const PlanFunction &function, size_t step) {
  for (const PlanBuffer &buffer : function.buffers) {
    if (buffer.first != static_cast<int64_t>(step))
      continue;
    std::vector<float> &elements = actual[buffer.tensor.name];
    elements.resize(*executor.elementCount(buffer.tensor.name));
    if (Error error = executor.download(buffer.tensor.name, 0, elements))
      return error;
  }
  ++checked;
  return step + 1 == function.steps.size() ? compareCall(function) : Error::success();
}

Error StepChecker::compareCall(const PlanFunction &function) {
  size_t step = 0;
  const Op *last = nullptr;
  evaluator.setResultHook([&](const Value &value, const Tensor<float> &reference) -> Error {
    step += last && last != value.definingOp();
    last = value.definingOp();
    // No later step touches a state that was written, so it still holds the result.
    if (const Value *state = writtenState(value)) {
      std::vector<float> &elements = actual[value.name];
      elements.resize(reference.size());
      if (Error error = executor.download(state->name, 0, elements))
        return error;
    }
    if (Error error = compareResult(function, step, value, reference))
      return error;
    // The next op of the reference gets the same input as the device's next step.
    llvm::copy(actual[value.name], reference.data());
    return Error::success();
  });
  return evaluator.run(function.name, arguments).takeError();
}

Error StepChecker::compareResult(const PlanFunction &function, size_t step, const Value &value,
                                 const Tensor<float> &reference) {
  const std::vector<float> &elements = actual[value.name];
  if (step >= function.steps.size() || elements.size() != reference.elements().size())
    return makeError("--check=reference: @" + function.name + " of the plan and of its IR differ at %" + value.name);
  double largest = 0;
  for (float element : reference.elements())
    if (std::isfinite(element))
      largest = std::max<double>(largest, std::abs(element));
  bool roundsFactors = anchor(*value.definingOp())->identAttribute("precision", "f32") == "tf32";
  StepTolerance tolerance = stepTolerance(executor.plan().dtype, roundsFactors);
  for (size_t i = 0; i < elements.size(); ++i) {
    double want = reference.data()[i], got = elements[i];
    double allowed = tolerance.ofElement * std::abs(want) + tolerance.ofLargest * largest;
    // A masked score must be -inf exactly; NaN never agrees.
    bool agree = want == got || (std::isfinite(want) && std::abs(want - got) <= allowed);
    if (!agree)
      return makeError("step " + Twine(step) + " of @" + function.name + ", " + function.steps[step].launch.kernel +
                       " from " + function.steps[step].location + ": element " + Twine(i) + " of %" + value.name +
                       ": expected " + numberText(want) + " as the reference has it, got " + numberText(got));
  }
  return Error::success();
}

} // namespace kiln
