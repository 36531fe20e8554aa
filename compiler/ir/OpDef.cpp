#include "ir/OpDef.h"

#include "support/model/RankSplit.h"

namespace kiln {

const OpDef *OpTable::find(StringRef mnemonic) const {
  auto it = llvm::find_if(records, [&](const OpDef *def) { return def->mnemonic == mnemonic; });
  return it == records.end() ? nullptr : *it;
}

ArrayRef<AttributeSpec> commonAttributes() {
  using Kind = Attribute::Kind;
  static const std::vector<AttributeSpec> specs = {
      {"kernel", Kind::Ident, "kernel template that runs this op (select-kernels)", false},
      {"tile", Kind::Dict, "configuration of the kernel template (choose-tiles)", false},
      {"variants",
       Kind::List,
       "kernel and tile for up to so many rows, few first (choose-tiles)",
       false,
       {},
       Kind::Dict},
      {"constants",
       Kind::List,
       "weights that the kernel has in constant memory (place-parameters)",
       false,
       {},
       Kind::Text},
      {"offsets", Kind::List, "arena offset of each result in bytes (plan-memory)", false, {}, Kind::Text},
      {"workspace", Kind::Text, "arena offset of the kernel's scratch in bytes (plan-memory)", false},
  };
  return specs;
}

ArrayRef<AttributeSpec> moduleAttributes() {
  using Kind = Attribute::Kind;
  using Name = ModuleAttribute;
  static const std::vector<AttributeSpec> specs = {
      {Name::batch, Kind::Ident, "the dim that counts sequences of a call", false},
      {Name::tokens, Kind::Ident, "the dim that counts tokens of each", false},
      {Name::context, Kind::Int, "positions of the model", false, {}, std::nullopt, 1},
      {Name::eos, Kind::List, "tokens that end a text", false, {}, Kind::Int},
      {Name::layers, Kind::Int, "layers of the model", false, {}, std::nullopt, 1},
      {Name::vocab, Kind::Int, "tokens of the vocabulary", false, {}, std::nullopt, 1},
      {Name::stepByStep, Kind::Bool, "every step is a launch of its own, tokens are chosen on the host", false},
      {Name::weightsFirst, Kind::Bool, "nothing runs before all weights are on the device", false},
      {Name::serial, Kind::Bool, "a kernel starts when the one in front of it has ended", false},
      {Name::restrictPointers, Kind::Bool, "tensors are __restrict__ parameters of kernels; needs serial", false},
      {Name::portable, Kind::Bool, "kernels run on every target of the plan, not only on their own", false},
      {Name::ranks,
       Kind::Int,
       "ranks among which tensors are split (shard-tensors)",
       false,
       {},
       std::nullopt,
       2,
       mostRanks},
      {Name::batchInvariant,
       Kind::Int,
       "1: a row's bits may depend on those beside it; else they do not, if kernels allow (choose-tiles)",
       false,
       {},
       std::nullopt,
       1},
      {Name::strategy, Kind::Text, "what chose all this, as the user wrote it", false},
      {Name::target, Kind::Ident, "the GPU that kernels are for (select-kernels)", false},
      {Name::kernels, Kind::Dict, "families that come first, by kind of op (select-kernels)", false},
  };
  return specs;
}

ArrayRef<AttributeSpec> functionAttributes() {
  using Kind = Attribute::Kind;
  static const std::vector<AttributeSpec> specs = {
      {"arena", Kind::Text, "size of the arena in bytes (plan-memory)", false},
      {"live", Kind::Text, "largest sum of bytes that are live at once (plan-memory)", false},
      {FunctionAttribute::sequences,
       Kind::Int,
       "of a call, at most (form-persistent-kernel)",
       false,
       {},
       std::nullopt,
       1},
  };
  return specs;
}

const AttributeSpec *findSpec(ArrayRef<AttributeSpec> specs, StringRef name) {
  auto it = llvm::find_if(specs, [&](const AttributeSpec &spec) { return spec.name == name; });
  return it == specs.end() ? nullptr : it;
}

static std::string kindText(const AttributeSpec &spec) {
  if (!spec.choices.empty())
    return llvm::join(spec.choices, " or ");
  if (spec.most != INT64_MAX)
    return ("an integer from " + Twine(spec.least) + " to " + Twine(spec.most)).str();
  if (spec.least != INT64_MIN)
    return ("an integer of " + Twine(spec.least) + " or more").str();
  static constexpr StringRef elements[] = {"integers", "floats", "truth values", "names",
                                           "strings",  "lists",  "dictionaries"};
  std::string text = attributeKindName(spec.kind).str();
  return spec.elements ? text + " of " + elements[static_cast<int>(*spec.elements)].str() : text;
}

static bool fits(const AttributeSpec &spec, const Attribute &value) {
  if (value.kind() != spec.kind)
    return false;
  if (!spec.choices.empty())
    return llvm::is_contained(spec.choices, value.asString());
  if (spec.elements)
    return llvm::all_of(value.asList(), [&](const Attribute &item) { return item.kind() == *spec.elements; });
  return value.kind() != Attribute::Kind::Int || (value.asInt() >= spec.least && value.asInt() <= spec.most);
}

std::string attributeProblem(ArrayRef<AttributeSpec> specs, StringRef name, const Attribute &value) {
  const AttributeSpec *spec = findSpec(specs, name);
  if (!spec)
    return ("unknown attribute '" + name + "'").str();
  if (fits(*spec, value))
    return "";
  return ("attribute '" + name + "': expected " + kindText(*spec) + ", got " + value.str()).str();
}

} // namespace kiln
