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

template <class Items> static auto *findByName(const Items &items, StringRef name) {
  auto it = llvm::find_if(items, [&](const auto &item) { return item.name == name; });
  return it == items.end() ? nullptr : &*it;
}

const PlanFunction *Plan::findFunction(StringRef name) const { return findByName(functions, name); }
const PlanKernel *Plan::findKernel(StringRef name) const { return findByName(kernels, name); }

} // namespace kiln
