// The text of a plan.toml. A plan that the checker accepts is written as text that reads back and writes the same. Its
// formulas have values for all dims within the bounds; errors have a position.
#include "Fuzz.h"

#include "plan/Plan.h"

using namespace kiln;

/// Some points within the bounds, besides the corners that the checker tries.
static std::vector<DimBinding> pointsOf(const Plan &plan) {
  std::vector<DimBinding> points(4);
  for (const PlanDim &dim : plan.dims) {
    int64_t span = dim.max - dim.min;
    points[0][dim.name] = dim.max;
    points[1][dim.name] = dim.min + span / 2;
    points[2][dim.name] = dim.min + std::min<int64_t>(span, 2);
    points[3][dim.name] = dim.max - std::min<int64_t>(span, 1);
  }
  return points;
}

static int64_t valueOf(const Expr &expr, const DimBinding &dims) {
  Expected<int64_t> value = expr.evaluate(dims);
  require(static_cast<bool>(value), "a formula without a value: " + expr.str());
  return *value;
}

/// The bytes of a tensor that a function's steps name.
static int64_t bytesOf(const Plan &plan, const PlanFunction &function, StringRef name, const DimBinding &dims) {
  auto isNamed = [&](const auto &tensor) { return tensor.name == name; };
  if (auto weight = llvm::find_if(plan.weights, isNamed); weight != plan.weights.end())
    return cantFail(packedSize(weight->recipe));
  std::vector<PlanTensor> tensors = plan.states;
  llvm::append_range(tensors, function.arguments);
  for (const PlanBuffer &buffer : function.buffers)
    tensors.push_back(buffer.tensor);
  auto tensor = llvm::find_if(tensors, isNamed);
  require(tensor != tensors.end(), "a step names no tensor: " + name);
  return valueOf(tensor->bytes(), dims);
}

/// Checks that what a launch's tensor maps describe lies inside its tensors.
static void checkMaps(const Plan &plan, const PlanFunction &function, const PlanLaunch &launch,
                      const DimBinding &dims) {
  for (const PlanTensorMap &map : plan.findKernel(launch.kernel)->maps) {
    int64_t end = valueOf(map.extents.front(), dims) * dtypeSize(map.dtype);
    for (auto [extent, stride] : llvm::zip(llvm::drop_begin(map.extents), map.strides)) {
      require(valueOf(stride, dims) % 16 == 0, "a stride that is not aligned: " + stride.str());
      end += (valueOf(extent, dims) - 1) * valueOf(stride, dims);
    }
    StringRef name = launch.arguments[static_cast<size_t>(map.argument)];
    require(end <= bytesOf(plan, function, name.drop_front(), dims), "a tensor map past the end of " + name);
  }
}

/// Checks that a function's memory lies inside its arena, aligned, and that its launches have blocks.
static void checkFunction(const Plan &plan, const PlanFunction &function, const DimBinding &dims) {
  int64_t arena = valueOf(function.arena, dims);
  auto checkPlace = [&](const Expr &offset, const Expr &bytes) {
    int64_t begin = valueOf(offset, dims), size = valueOf(bytes, dims);
    require(begin >= 0 && begin % 16 == 0, "an offset that is not aligned: " + offset.str());
    require(size >= 0 && size <= arena - begin, "memory outside the arena: " + offset.str());
  };
  for (const PlanBuffer &buffer : function.buffers)
    checkPlace(buffer.offset, buffer.tensor.bytes());
  for (const PlanStep &step : function.steps) {
    if (step.workspace)
      checkPlace(step.workspace->offset, step.workspace->bytes);
    valueOf(step.counters, dims);
    if (step.matmul)
      continue;
    const PlanLaunch &launch = step.launchFor(dims);
    for (const Expr &extent : launch.grid)
      require(valueOf(extent, dims) > 0, "a grid of nothing: " + extent.str());
    require(valueOf(launch.grid[0], dims) % plan.findKernel(launch.kernel)->cluster == 0,
            "a part of a cluster: " + launch.grid[0].str());
    checkMaps(plan, function, launch, dims);
    require(static_cast<bool>(step.cost(dims, 7)), "a cost without a value");
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  SourceManager sources;
  Expected<Plan> plan = parsePlan(sources.add("plan.toml", inputText(data, size).str()));
  if (!plan)
    return requirePlace(plan.takeError());
  std::string text = writePlan(*plan);
  Expected<Plan> again = parsePlan(sources.add("written.toml", text));
  if (!again)
    require(false, "a written plan that is refused: " + toString(again.takeError()) + "\n" + text);
  requireEqual(text, writePlan(*again), "a written plan that is written otherwise");
  std::vector<DimBinding> points = pointsOf(*plan);
  for (const DimBinding &dims : points)
    for (const PlanFunction &function : plan->functions)
      checkFunction(*plan, function, dims);
  plan->restrictTo({Entry::Decode}, points[1]);
  return 0;
}
