#include "plan/Plan.h"

#include "support/model/TargetName.h"

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

int64_t PlanStep::lengthIn(const DimBinding &dims) const {
  auto known = dims.find(tokens);
  return known == dims.end() ? INT64_MAX : known->second;
}

const PlanLaunch &PlanStep::launchFor(const DimBinding &dims) const {
  if (variants.empty())
    return launch;
  int64_t own = cantFail(rows.evaluate(dims)); // the reader has checked this
  int64_t length = hasTokenBounds() ? lengthIn(dims) : 0;
  auto variant = llvm::find_if(variants, [&](const PlanVariant &one) { return one.takes(own, length); });
  return variant == variants.end() ? launch : variant->launch;
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
  auto rowsAt = [&](const DimBinding &dims) { return cantFail(rows.evaluate(dims)); };
  const int64_t longest = hasTokenBounds() ? lengthIn(upper) : 0;
  std::vector<PlanVariant> kept;
  for (PlanVariant &variant : variants) {
    // The most rows and tokens of calls that come to the variant by their length.
    DimBinding dims = upper;
    if (variant.tokens > 0)
      dims[tokens] = std::min(longest, variant.tokens);
    int64_t mostRows = rowsAt(dims), mostTokens = variant.tokens > 0 ? dims[tokens] : INT64_MAX;
    if (llvm::any_of(kept, [&](const PlanVariant &before) { return before.takes(mostRows, mostTokens); }))
      continue;
    kept.push_back(std::move(variant));
    // It takes every call that is left.
    if (kept.back().takes(rowsAt(upper), longest)) {
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

bool PlanStep::sharesMailboxes() const {
  auto isShared = [](StringRef argument) { return mailboxesOf(argument).has_value(); };
  return llvm::any_of(launches(), [&](const PlanLaunch *one) { return llvm::any_of(one->arguments, isShared); });
}

const PlanBuffer *PlanFunction::resultOf(size_t step) const {
  auto it = llvm::find_if(buffers, [&](const PlanBuffer &one) { return one.first == static_cast<int64_t>(step); });
  return it == buffers.end() ? nullptr : &*it;
}

const PlanFunction *Plan::findFunction(StringRef name) const { return findByName(functions, name); }
const PlanDim *Plan::findDim(StringRef name) const { return findByName(dims, name); }

/// The number behind a prefix.
static std::optional<int64_t> rankBehind(StringRef argument, StringRef prefix) {
  int64_t rank = 0;
  if (!argument.consume_front(prefix) || argument.empty() || !llvm::all_of(argument, llvm::isDigit) ||
      argument.getAsInteger(10, rank))
    return std::nullopt;
  return rank;
}

std::optional<int64_t> inboxOf(StringRef argument) { return rankBehind(argument, "@inbox"); }
std::optional<int64_t> mailboxesOf(StringRef argument) { return rankBehind(argument, "@mailboxes"); }

std::optional<RankBuffer> rankBufferOf(StringRef argument) {
  auto [rank, name] = argument.split('%');
  RankBuffer result{0, name};
  if (!rank.consume_front("@") || name.empty() || rank.empty() || !llvm::all_of(rank, llvm::isDigit) ||
      rank.getAsInteger(10, result.rank))
    return std::nullopt;
  return result;
}

/// The bounds of tokens that variants have where they count this dim, or pastTokens.
static std::set<int64_t> boundsOf(const Plan &plan, StringRef tokens) {
  std::set<int64_t> bounds;
  for (const PlanFunction &function : plan.functions)
    for (const PlanStep &step : function.steps)
      for (const PlanVariant &variant : step.variants)
        if (variant.tokens > 0 && step.tokens == tokens)
          bounds.insert(variant.tokens);
  return bounds;
}

PromptClasses::PromptClasses(const Plan &plan) : bounds(boundsOf(plan, plan.entries.tokens)) {}

int64_t PromptClasses::of(int64_t tokens) const { return std::distance(bounds.begin(), bounds.lower_bound(tokens)); }

CacheBounds::CacheBounds(const Plan &plan) : bounds(boundsOf(plan, pastTokens)) {}

int64_t CacheBounds::of(int64_t past) const {
  auto bound = bounds.lower_bound(past);
  return bound == bounds.end() ? 0 : *bound;
}

void CacheBounds::addTo(DimBinding &dims, int64_t past) const {
  if (int64_t bound = of(past); bound > 0)
    dims[pastTokens] = bound;
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
