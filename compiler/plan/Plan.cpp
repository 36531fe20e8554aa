#include "plan/Plan.h"

namespace kiln {

Expr PlanTensor::bytes() const {
  Expr product(dtypeSize(dtype));
  for (const Expr &extent : shape)
    product = product * extent;
  return product;
}

const PlanLaunch &PlanStep::launchFor(const DimBinding &dims) const {
  auto batch = dims.find("B");
  if (batch != dims.end())
    for (const PlanVariant &variant : variants)
      if (batch->second <= variant.batch)
        return variant.launch;
  return launch;
}

void PlanStep::restrictTo(int64_t batch) {
  auto whole = llvm::find_if(variants, [&](const PlanVariant &variant) { return batch <= variant.batch; });
  if (whole == variants.end())
    return;
  launch = std::move(whole->launch);
  variants.erase(whole, variants.end());
}

template <class Items> static auto *findByName(const Items &items, StringRef name) {
  auto it = llvm::find_if(items, [&](const auto &item) { return item.name == name; });
  return it == items.end() ? nullptr : &*it;
}

const PlanFunction *Plan::findFunction(StringRef name) const { return findByName(functions, name); }
const PlanKernel *Plan::findKernel(StringRef name) const { return findByName(kernels, name); }

void Plan::restrictTo(ArrayRef<StringRef> names, int64_t batch) {
  llvm::erase_if(functions, [&](const PlanFunction &function) { return !llvm::is_contained(names, function.name); });
  std::set<StringRef> launched;
  for (PlanFunction &function : functions)
    for (PlanStep &step : function.steps) {
      step.restrictTo(batch);
      launched.insert(step.launch.kernel);
      for (const PlanVariant &variant : step.variants)
        launched.insert(variant.launch.kernel);
    }
  llvm::erase_if(kernels, [&](const PlanKernel &kernel) { return !launched.count(kernel.name); });
}

} // namespace kiln
