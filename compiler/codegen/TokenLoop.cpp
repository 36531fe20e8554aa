#include "codegen/TokenLoop.h"

#include "kernels/families/Families.h"

namespace kiln {

/// The op that is all of the module's @generate, or of its @decode, if @generate of a plan can be made of all its
/// choices; or null.
static const Op *wholeDecode(const Module &module, const Target &target) {
  const Function *ofSome = module.findFunction(Entry::Generate);
  const Function *decode = ofSome ? ofSome : module.findFunction(Entry::Decode);
  if (!decode || decode->body.ops().size() != 2)
    return nullptr;
  const Op &op = *decode->body.ops().front();
  auto fits = [&](const KernelChoice &choice) {
    return choice.family == &decodeLayersFamily && generateChoice(op, choice, target);
  };
  const bool isWhole = fits(choiceOf(op)) &&
                       llvm::all_of(variantsOf(op), [&](const KernelVariant &variant) { return fits(variant.choice); });
  return isWhole ? &op : nullptr;
}

/// Whether arguments that @generate shares with @decode have the names that @sample gives them, and the others names of
/// their own.
static bool areNamesFree(const Module &module, const DecodeEntry &decode, const SamplingParts &parts) {
  StringSet<> taken;
  for (const auto &weight : module.weights)
    taken.insert(weight->name);
  for (const auto &state : module.states)
    taken.insert(state->name);
  return decode.tokens == parts.state[0].name && decode.positions == parts.state[1].name && decode.logits == "logits" &&
         llvm::none_of(parts.state, [&](const SamplingArgument &argument) { return taken.contains(argument.name); }) &&
         !taken.contains(parts.best.name);
}

Expected<std::optional<TokenLoop>> TokenLoop::of(const Module &module, const Plan &plan) {
  Expected<const Target *> target = findTarget(plan.target);
  if (!target)
    return target.takeError();
  const Op *op = wholeDecode(module, **target);
  if (!op || !canSample(plan))
    return std::nullopt;
  SamplingParts parts = samplingParts(plan, decodeLayersFamily.launch(*op, choiceOf(*op).tile).threads);
  if (!areNamesFree(module, *plan.entries.decode, parts))
    return std::nullopt;
  return TokenLoop(*op, **target, std::move(parts));
}

Expected<WrittenKernel> TokenLoop::write(const KernelChoice &choice) const {
  KernelChoice own = *generateChoice(*decode, choice, *target);
  Expected<KernelText> text = writeGenerateKernel(*decode, own, parts);
  if (!text)
    return text.takeError();
  return WrittenKernel{std::move(own), std::move(*text)};
}

std::vector<PlanTensor> TokenLoop::arguments(const Plan &plan) const {
  const PlanEntries &entries = plan.entries;
  std::vector<PlanTensor> arguments = {
      {entries.decode->logits, DType::F32, {Expr::name(entries.batch), Expr(plan.model.vocabulary)}}};
  for (const SamplingArgument &argument : parts.state)
    arguments.push_back(argument.tensor());
  arguments.push_back(parts.best.tensor());
  return arguments;
}

} // namespace kiln
