#include "plan/Plan.h"

#include "support/TargetName.h"

namespace kiln {

std::string codeFile(StringRef target, StringRef kernel) {
  bool isPtx = isPtxTarget(target);
  return ((isPtx ? "ptx/" : "cubin/") + target + "/" + kernel + (isPtx ? ".ptx" : ".cubin")).str();
}

Expr PlanTensor::bytes() const {
  Expr product(dtypeSize(dtype));
  for (const Expr &extent : shape)
    product = product * extent;
  return product;
}

std::string PlanKernel::variant() const {
  std::string text = dtypeName(dtype).str();
  if (!extents.empty())
    text += "__" + extents;
  if (rows != 0)
    text += "__r" + std::to_string(rows);
  return number == 1 ? text : text + "__v" + std::to_string(number);
}

int64_t PlanKernel::argumentsAt(int64_t argument) const {
  auto it = llvm::find_if(arrays, [&](const PlanArray &array) { return array.argument == argument; });
  return it == arrays.end() ? 1 : it->size;
}

SmallVector<const PlanLaunch *, 4> PlanStep::launches() const {
  SmallVector<const PlanLaunch *, 4> all = {&launch};
  for (const PlanVariant &variant : variants)
    all.push_back(&variant.launch);
  return all;
}

const PlanLaunch &PlanStep::launchFor(const DimBinding &dims) const {
  if (variants.empty())
    return launch;
  int64_t own = cantFail(rows.evaluate(dims)); // the reader has checked this
  for (const PlanVariant &variant : variants)
    if (own <= variant.rows)
      return variant.launch;
  return launch;
}

Expected<StepCost> PlanStep::cost(const DimBinding &dims, int64_t past) const {
  DimBinding all = dims;
  all[pastTokens] = past;
  Expected<int64_t> moved = bytes.evaluate(all);
  if (!moved)
    return moved.takeError();
  Expected<int64_t> done = flops.evaluate(all);
  if (!done)
    return done.takeError();
  return StepCost{*moved, *done};
}

void PlanStep::restrictTo(const DimBinding &upper) {
  if (variants.empty())
    return;
  int64_t most = cantFail(rows.evaluate(upper));
  auto whole = llvm::find_if(variants, [&](const PlanVariant &variant) { return most <= variant.rows; });
  if (whole == variants.end())
    return;
  launch = std::move(whole->launch);
  variants.erase(whole, variants.end());
}

template <class Items> static auto *findByName(const Items &items, StringRef name) {
  auto it = llvm::find_if(items, [&](const auto &item) { return item.name == name; });
  return it == items.end() ? nullptr : &*it;
}

const PlanBuffer *PlanFunction::resultOf(size_t step) const {
  auto it = llvm::find_if(buffers, [&](const PlanBuffer &one) { return one.first == static_cast<int64_t>(step); });
  return it == buffers.end() ? nullptr : &*it;
}

const PlanFunction *Plan::findFunction(StringRef name) const { return findByName(functions, name); }
const PlanDim *Plan::findDim(StringRef name) const { return findByName(dims, name); }

DimBinding Plan::bind(int64_t batch, int64_t tokens) const {
  return {{entries.batch, batch}, {entries.tokens, tokens}};
}
const PlanKernel *Plan::findKernel(StringRef name) const { return findByName(kernels, name); }

void Plan::restrictTo(ArrayRef<Entry> kept, const DimBinding &upper) {
  llvm::erase_if(functions, [&](const PlanFunction &function) {
    std::optional<Entry> entry = findEntry(function.name);
    return !entry || !llvm::is_contained(kept, *entry);
  });
  entries.restrictTo(kept);
  std::set<StringRef> launched;
  for (PlanFunction &function : functions)
    for (PlanStep &step : function.steps) {
      step.restrictTo(upper);
      for (const PlanLaunch *launch : step.launches())
        launched.insert(launch->kernel);
    }
  llvm::erase_if(kernels, [&](const PlanKernel &kernel) { return !launched.count(kernel.name); });
}

} // namespace kiln
