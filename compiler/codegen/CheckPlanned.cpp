#include "codegen/CheckPlanned.h"

#include "ir/Verifier.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/KernelFamily.h"
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

static Error checkOp(const Op &op, const Target &target, std::set<std::string> &checked) {
  if (Error error = checkChoices(op, target, checked))
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

Error checkPlanned(const Module &module) {
  Expected<const Target *> target = targetOf(module);
  if (!target)
    return target.takeError();
  if (module.functions.empty())
    return makeError(module.loc, "module @" + module.name + ": expected a function, got none");
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
