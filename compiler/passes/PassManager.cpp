#include "passes/PassManager.h"

#include "ir/Printer.h"
#include "ir/Verifier.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"

namespace kiln {

ArrayRef<const PassDef *> allPasses() {
  static const std::vector<const PassDef *> passes = {
#define KILN_PASS(identifier) &identifier##Pass,
#include "passes/Passes.def"
  };
  return passes;
}

//===----------------------------------------------------------------------===//
// Invocations
//===----------------------------------------------------------------------===//

std::string PassInvocation::str() const {
  AttributeMap given;
  for (const PassOption &option : pass->options) {
    const Attribute &value = options.all().find(option.name)->second;
    if (!(value == option.defaultValue))
      given.insert({option.name.str(), value});
  }
  std::string text = pass->name.str();
  raw_string_ostream os(text);
  if (!given.empty())
    printAttributes(os, given);
  return text;
}

/// Whether a value fits the option; converts it to the option's kind. A string that looks like a name may be written as
/// one: tuning = none.
static Error takeValue(const PassDef &pass, const PassOption &option, const NamedAttribute &given, Attribute &result) {
  using Kind = Attribute::Kind;
  const Attribute &value = given.value;
  Kind kind = option.defaultValue.kind();
  auto fail = [&](const Twine &what) {
    return makeError(given.valueLoc,
                     "pass " + pass.name + ": option '" + option.name + "': expected " + what + ", got " + value.str());
  };
  bool isWordForText = kind == Kind::Text && value.kind() == Kind::Ident;
  if (value.kind() != kind && !isWordForText)
    return fail(attributeKindName(kind));
  if (!option.choices.empty() && !llvm::is_contained(option.choices, value.asString()))
    return fail(llvm::join(option.choices, " or "));
  if (kind == Kind::Int && (value.asInt() < 0 || value.asInt() > option.most))
    return fail("0 to " + Twine(option.most));
  result = isWordForText ? Attribute::text(value.asString()) : value;
  return Error::success();
}

Expected<PassInvocation> makeWrittenInvocation(const PassDef &pass, ArrayRef<NamedAttribute> given) {
  AttributeMap values;
  for (const PassOption &option : pass.options)
    values.insert({option.name.str(), option.defaultValue});
  for (const NamedAttribute &each : given) {
    auto option = llvm::find_if(pass.options, [&](const PassOption &known) { return known.name == each.name; });
    if (option == pass.options.end())
      return makeError(each.nameLoc, "pass " + pass.name + ": unknown option '" + each.name + "'");
    if (Error error = takeValue(pass, *option, each, values.find(each.name)->second))
      return error;
  }
  return PassInvocation{&pass, PassOptions(std::move(values))};
}

Expected<PassInvocation> makeInvocation(const PassDef &pass, const AttributeMap &given) {
  std::vector<NamedAttribute> options;
  for (const auto &[name, value] : given)
    options.push_back({name, value});
  return makeWrittenInvocation(pass, options);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// The verifier's error after a pass, with a reproducer if requested.
static Error reportIllFormed(const PassInvocation &invocation, Error violation, StringRef moduleBefore,
                             const std::string &reproducerPath) {
  std::string message = "pass " + invocation.pass->name.str() + " made ill-formed IR";
  if (!reproducerPath.empty()) {
    std::string text = "// kiln-opt --passes='" + invocation.str() + "' " + reproducerPath + "\n" + moduleBefore.str();
    if (Error error = writeFile(reproducerPath, text))
      return llvm::joinErrors(makeError(message), llvm::joinErrors(std::move(violation), std::move(error)));
    message += "; reproduce with: kiln-opt --passes='" + invocation.str() + "' " + reproducerPath;
  }
  return llvm::joinErrors(makeError(message), std::move(violation));
}

/// Checks that no later pass, in the order of Passes.def, has left attributes that this pass would make wrong.
static Error checkOrder(const Module &module, const PassDef &pass) {
  auto at = llvm::find(allPasses(), &pass);
  if (at == allPasses().end())
    return Error::success();
  for (const auto &function : module.functions)
    for (const auto &op : function->body.ops())
      for (const PassDef *later : ArrayRef(at + 1, allPasses().end()))
        for (StringRef attribute : later->sets)
          if (op->attribute(attribute))
            return opError(*op, "pass " + pass.name + " comes before " + later->name + ", which has set '" + attribute +
                                    "' here");
  return Error::success();
}

Error runPasses(Module &module, ArrayRef<PassInvocation> passes, const PassInstrumentation &instrumentation) {
  for (const PassInvocation &invocation : passes) {
    if (instrumentation.before)
      if (Error error = instrumentation.before(invocation, module))
        return error;
    if (Error error = checkOrder(module, *invocation.pass))
      return error;
    std::string moduleBefore = instrumentation.reproducerPath.empty() ? std::string() : toString(module);
    if (Error error = invocation.pass->run(module, invocation.options))
      return error;
    if (Error error = verify(module))
      return reportIllFormed(invocation, std::move(error), moduleBefore, instrumentation.reproducerPath);
    if (instrumentation.after)
      if (Error error = instrumentation.after(invocation, module))
        return error;
  }
  return Error::success();
}

} // namespace kiln
