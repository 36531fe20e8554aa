#include "StepChecker.h"

#include "support/Diagnostic.h"
#include "support/Number.h"

#include <cmath>

namespace kiln {

StepChecker::StepChecker(const Module &module, WeightLoader<float> loadWeight, Executor &executor)
    : evaluator(module, std::move(loadWeight)), executor(executor) {
  // A state is shared by later calls: what this one found in it must be a copy.
  evaluator.setResultHook([this](const Value &value, const Tensor<float> &tensor) {
    Tensor<float> copy(tensor.shape());
    std::copy_n(tensor.data(), tensor.size(), copy.data());
    expected[value.name] = copy;
  });
}

void StepChecker::attach() {
  executor.setObserver({[this](const Executor::Call &call) { return onCall(call); },
                        [this](const PlanFunction &function, size_t step) { return onStep(function, step); }});
}

Error StepChecker::onCall(const Executor::Call &call) {
  const PlanFunction &function = *executor.plan().findFunction(call.function);
  if (call.firstRow != 0)
    return makeError("--check=reference: expected calls on the whole batch, got one from row " + Twine(call.firstRow));
  std::vector<Tensor<float>> arguments;
  for (const PlanTensor &argument : function.arguments) {
    SmallVector<int64_t, 4> shape;
    for (const Expr &extent : argument.shape)
      shape.push_back(cantFail(extent.evaluate(call.dims), "the executor has checked the dims"));
    Tensor<float> &tensor = arguments.emplace_back(shape);
    auto given = llvm::find_if(call.arguments, [&](const auto &entry) { return entry.first == argument.name; });
    std::copy(given->second.begin(), given->second.end(), tensor.data());
  }
  expected.clear();
  return evaluator.run(call.function, arguments).takeError();
}

Error StepChecker::onStep(const PlanFunction &function, size_t step) {
  for (const PlanBuffer &buffer : function.buffers) {
    auto it = expected.find(buffer.tensor.name);
    if (buffer.first != static_cast<int64_t>(step) || it == expected.end())
      continue;
    if (Error error = compare(function, function.steps[step], buffer.tensor.name, it->second))
      return error;
  }
  ++checked;
  return Error::success();
}

/// How far a step may be off, relative to its largest element, after the errors of the steps before it.
static double tolerance(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return 5e-2;
  case DType::F16:
    return 1e-2;
  default:
    return 1e-4;
  }
}

Error StepChecker::compare(const PlanFunction &function, const PlanStep &step, StringRef name,
                           const Tensor<float> &reference) {
  std::vector<float> actual(reference.size());
  if (Error error = executor.download(name, 0, actual))
    return error;
  double largest = 0;
  for (float value : reference.elements())
    if (std::isfinite(value))
      largest = std::max<double>(largest, std::abs(value));
  double allowed = tolerance(executor.plan().dtype) * std::max(largest, 1e-30);
  for (int64_t i = 0; i < reference.size(); ++i) {
    double want = reference.data()[i], got = actual[i];
    bool agree = want == got || std::abs(want - got) <= allowed; // NaN agrees with nothing
    if (!agree)
      return makeError("step " + Twine(&step - function.steps.data()) + " of @" + function.name + ", " + step.launch.kernel + " from " +
                       step.location + ": element " + Twine(i) + " of %" + name + ": expected " +
                       numberText(want) + " as the reference has it, got " + numberText(got));
  }
  return Error::success();
}

} // namespace kiln
