#include "codegen/CheckPlanned.h"

#include "ir/Verifier.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/KernelFamily.h"
#include "kernels/tuning/Tuning.h"
#include "support/Diagnostic.h"

namespace kiln {

/// Whether the attribute is the text of a formula, or of the place of a state's new value.
static bool isFormula(const Attribute *attribute, bool mayBeState = false) {
  if (!attribute || attribute->kind() != Attribute::Kind::Text)
    return false;
  if (mayBeState && attribute->asString() == "state")
    return true;
  Expected<Expr> formula = Expr::parse(attribute->asString());
  return formula ? true : (llvm::consumeError(formula.takeError()), false);
}

/// Checks the variants, each {rows, kernel, tile}, with tokens or without, as variantsOf reads it.
static Error checkVariants(const Op &op, const Target &target) {
  const Attribute *variants = op.attribute("variants");
  if (!variants)
    return Error::success();
  for (const Attribute &variant : variants->asList()) {
    bool isDict = variant.kind() == Attribute::Kind::Dict;
    const Attribute *rows = isDict ? findAttribute(variant.asDict(), "rows") : nullptr;
    const Attribute *kernel = isDict ? findAttribute(variant.asDict(), "kernel") : nullptr;
    const Attribute *tokens = isDict ? findAttribute(variant.asDict(), "tokens") : nullptr;
    bool hasTokens = tokens && tokens->kind() == Attribute::Kind::Int && tokens->asInt() > 0 &&
                     (tokensOfRows(op) || attendsToCache(op));
    if (!rows || rows->kind() != Attribute::Kind::Int || !kernel || (tokens && !hasTokens))
      return opError(op,
                     "attribute 'variants': expected {rows = N, kernel = NAME, tile = {…}}, with tokens = N for rows "
                     "of prompts and attention over a cache, got " +
                         variant.str());
    DimBinding upper = boundsForRows(op, rows->asInt(), tokens ? tokens->asInt() : 0);
    Expected<const KernelFamily *> family = checkFamily(op, kernel, target, upper);
    if (!family)
      return family.takeError();
    if (Error error = checkTile(op, **family, findAttribute(variant.asDict(), "tile"), target, upper))
      return error;
  }
  return Error::success();
}

/// Checks that constants are weights of one dimension that the op reads.
static Error checkConstants(const Op &op) {
  const Attribute *constants = op.attribute("constants");
  if (!constants)
    return Error::success();
  for (const Attribute &name : constants->asList()) {
    auto isNamed = [&](const Value *input) {
      return name.kind() == Attribute::Kind::Text && input->isWeight() && input->type.rank() == 1 &&
             input->name == name.asString();
    };
    if (llvm::none_of(op.inputs(), isNamed))
      return opError(op, "attribute 'constants': expected names of weights of one dimension that this reads, got " +
                             name.str());
  }
  return Error::success();
}

/// The problem of an op and the kernels that it was given.
static std::string kernelsOf(const Op &op) {
  std::string text = problemName(op) + (isVerified(op) ? " verified" : "");
  for (const Value *operand : op.operands())
    text += " " + operand->type.str();
  for (const auto &result : op.results())
    text += " " + result->type.str();
  for (StringRef name : {"kernel", "tile", "variants"})
    if (const Attribute *attribute = op.attribute(name))
      text += (" " + name + "=").str() + attribute->str();
  return text;
}

/// Checks the op's kernels, unless an op with the same problem has the same ones: layers are alike, and to list the
/// configurations of a kernel takes time. `checked` are such ops.
static Error checkKernels(const Op &op, const Target &target, std::set<std::string> &checked) {
  auto [known, isNew] = checked.insert(kernelsOf(op));
  if (!isNew)
    return Error::success();
  Expected<const KernelFamily *> family = checkFamily(op, op.attribute("kernel"), target, boundsToChooseFor(op));
  if (!family)
    return family.takeError();
  if (Error error = checkTile(op, **family, op.attribute("tile"), target, boundsToChooseFor(op)))
    return error;
  return checkVariants(op, target);
}

static Error checkOp(const Op &op, const Target &target, std::set<std::string> &checked) {
  if (Error error = checkKernels(op, target, checked))
    return error;
  if (Error error = checkConstants(op))
    return error;
  const Attribute *offsets = op.attribute("offsets");
  bool hasPlaces = offsets && offsets->asList().size() == op.results().size() &&
                   llvm::all_of(offsets->asList(), [](const Attribute &offset) { return isFormula(&offset, true); });
  if (!hasPlaces)
    return opError(op, "expected the attribute 'offsets', a formula for each result; run plan-memory first");
  if (workspaceBytes(op) && !isFormula(op.attribute("workspace")))
    return opError(op, "expected the attribute 'workspace', a formula; run plan-memory first");
  return Error::success();
}

/// Checks the tokens that end a text, for the plan's description of the model.
static Error checkEosTokens(const Module &module) {
  const Attribute *tokens = findAttribute(module.attributes, "eos");
  auto isInt = [](const Attribute &token) { return token.kind() == Attribute::Kind::Int; };
  if (!tokens || (tokens->kind() == Attribute::Kind::List && llvm::all_of(tokens->asList(), isInt)))
    return Error::success();
  return makeError(module.loc,
                   "module @" + module.name + ": attribute 'eos': expected a list of token ids, got " + tokens->str());
}

Error checkPlanned(const Module &module) {
  Expected<const Target *> target = targetOf(module);
  if (!target)
    return target.takeError();
  if (module.functions.empty())
    return makeError(module.loc, "module @" + module.name + ": expected a function, got none");
  if (Error error = checkEosTokens(module))
    return error;
  std::set<std::string> checked;
  for (const auto &function : module.functions) {
    for (const auto &op : function->body.ops())
      if (!op->has(Trait::Terminator))
        if (Error error = checkOp(*op, **target, checked))
          return error;
    for (StringRef size : {"arena", "live"})
      if (!isFormula(findAttribute(function->attributes, size)))
        return makeError(function->loc, "@" + function->name + ": expected the attribute '" + size +
                                            "', a formula; run plan-memory first");
  }
  return Error::success();
}

} // namespace kiln
