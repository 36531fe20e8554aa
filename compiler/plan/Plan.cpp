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
  auto length = dims.find(tokens);
  for (const PlanVariant &variant : variants)
    if (own <= variant.rows && (variant.tokens == 0 || length->second <= variant.tokens))
      return variant.launch;
  return launch;
}

bool PlanStep::hasTokenBounds() const {
  return llvm::any_of(variants, [](const PlanVariant &variant) { return variant.tokens > 0; });
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
  // The most rows and tokens of calls that come to a variant by their length.
  auto mostOf = [&](const PlanVariant &variant) {
    DimBinding dims = upper;
    if (variant.tokens > 0)
      dims[tokens] = std::min(dims[tokens], variant.tokens);
    return std::pair(cantFail(rows.evaluate(dims)), variant.tokens > 0 ? dims[tokens] : INT64_MAX);
  };
  std::vector<PlanVariant> kept;
  for (PlanVariant &variant : variants) {
    auto [mostRows, mostTokens] = mostOf(variant);
    auto isEnough = [mostRows = mostRows, mostTokens = mostTokens](const PlanVariant &before) {
      return mostRows <= before.rows && (before.tokens == 0 || mostTokens <= before.tokens);
    };
    if (llvm::any_of(kept, isEnough))
      continue;
    kept.push_back(std::move(variant));
    // It takes every call that is left.
    if (cantFail(rows.evaluate(upper)) <= kept.back().rows &&
        (kept.back().tokens == 0 || upper.find(tokens)->second <= kept.back().tokens)) {
      launch = std::move(kept.back().launch);
      kept.pop_back();
      break;
    }
  }
  variants = std::move(kept);
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

int64_t Plan::promptClass(int64_t tokens) const {
  std::set<int64_t> bounds;
  for (const PlanFunction &function : functions)
    for (const PlanStep &step : function.steps)
      for (const PlanVariant &variant : step.variants)
        if (variant.tokens > 0 && step.tokens == entries.tokens && tokens > variant.tokens)
          bounds.insert(variant.tokens);
  return static_cast<int64_t>(bounds.size());
}

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
