#include "codegen/CheckPlanned.h"

#include "ir/Verifier.h"
#include "kernels/Problem.h"
#include "support/Diagnostic.h"

namespace kiln {

/// Whether it is the text of a formula, or of the place of a state's new value.
static bool isFormula(const Attribute *attribute, bool mayBeState = false) {
  if (!attribute || attribute->kind() != Attribute::Kind::Text)
    return false;
  if (mayBeState && attribute->asString() == "state")
    return true;
  Expected<Expr> formula = Expr::parse(attribute->asString());
  return formula ? true : (llvm::consumeError(formula.takeError()), false);
}

static const Attribute *findAttribute(const AttributeMap &attributes, StringRef name) {
  auto it = attributes.find(name);
  return it == attributes.end() ? nullptr : &it->second;
}

static bool hasSameKeys(const Tile &a, const Tile &b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [](auto pair) {
           return std::get<0>(pair).first == std::get<1>(pair).first;
         });
}

static Error checkTile(const Op &op, const KernelFamily &family, const Attribute *tile, const Target &target) {
  if (!tile || tile->kind() != Attribute::Kind::Dict)
    return opError(op, "expected the attribute 'tile'; run choose-tiles first");
  std::vector<Tile> known = family.configurations(op, target, upperBounds(op));
  if (known.empty() || hasSameKeys(tile->asDict(), known.front()))
    return Error::success();
  std::vector<StringRef> names;
  for (const auto &[name, value] : known.front())
    names.push_back(name);
  return opError(op, "attribute 'tile': expected " + llvm::join(names, ", ") + " for " + family.name + ", got " + tile->str());
}

/// Each variant is {batch, kernel, tile}, as variantsOf reads it.
static Error checkVariants(const Op &op, const Target &target) {
  const Attribute *variants = op.attribute("variants");
  if (!variants)
    return Error::success();
  for (const Attribute &variant : variants->asList()) {
    bool isDict = variant.kind() == Attribute::Kind::Dict;
    const Attribute *batch = isDict ? findAttribute(variant.asDict(), "batch") : nullptr;
    const Attribute *kernel = isDict ? findAttribute(variant.asDict(), "kernel") : nullptr;
    if (!batch || batch->kind() != Attribute::Kind::Int || !kernel || kernel->kind() != Attribute::Kind::Ident)
      return opError(op, "attribute 'variants': expected {batch = N, kernel = NAME, tile = {…}}, got " + variant.str());
    const KernelFamily *family = findKernelFamily(kernel->asString());
    if (!family || !family->accepts(op, target, upperBounds(op)))
      return opError(op, "attribute 'variants': expected a kernel that runs this, got " + kernel->str());
    if (Error error = checkTile(op, *family, findAttribute(variant.asDict(), "tile"), target))
      return error;
  }
  return Error::success();
}

static Error checkOp(const Op &op, const Target &target) {
  StringRef kernel = op.identAttribute("kernel");
  if (kernel.empty())
    return opError(op, "expected the attribute 'kernel'; run select-kernels first");
  const KernelFamily *family = findKernelFamily(kernel);
  if (!family || !family->accepts(op, target, upperBounds(op)))
    return opError(op, "attribute 'kernel': expected one that runs this, got " + kernel);
  if (Error error = checkTile(op, *family, op.attribute("tile"), target))
    return error;
  if (Error error = checkVariants(op, target))
    return error;
  const Attribute *offsets = op.attribute("offsets");
  bool hasPlaces = offsets && offsets->asList().size() == op.results().size() &&
                   llvm::all_of(offsets->asList(), [](const Attribute &offset) { return isFormula(&offset, true); });
  if (!hasPlaces)
    return opError(op, "expected the attribute 'offsets', a formula for each result; run plan-memory first");
  if (family->workspace && !isFormula(op.attribute("workspace")))
    return opError(op, "expected the attribute 'workspace', a formula; run plan-memory first");
  return Error::success();
}

Error checkPlanned(const Module &module) {
  const Attribute *name = findAttribute(module.attributes, "target");
  if (!name || name->kind() != Attribute::Kind::Ident)
    return makeError(module.loc, "expected the attribute 'target' of the module; run select-kernels first");
  Expected<const Target *> target = findTarget(name->asString());
  if (!target)
    return target.takeError();
  for (const auto &function : module.functions) {
    for (const auto &op : function->body.ops())
      if (!op->has(Trait::Terminator))
        if (Error error = checkOp(*op, **target))
          return error;
    for (StringRef size : {"arena", "live"})
      if (!isFormula(findAttribute(function->attributes, size)))
        return makeError(function->loc, "@" + function->name + ": expected the attribute '" + size +
                                            "', a formula; run plan-memory first");
  }
  return Error::success();
}

} // namespace kiln
