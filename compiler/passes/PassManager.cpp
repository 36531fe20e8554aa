#include "passes/PassManager.h"

#include "ir/Printer.h"
#include "ir/Verifier.h"
#include "support/Diagnostic.h"
#include "support/File.h"
#include "support/Nearest.h"

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

static Error checkOption(const PassDef &pass, const PassOption &option, const Attribute &value) {
  auto fail = [&](const Twine &what) {
    return makeError("pass " + pass.name + ": option '" + option.name + "': expected " + what + ", got " + value.str());
  };
  if (value.kind() != option.defaultValue.kind())
    return fail(attributeKindName(option.defaultValue.kind()));
  if (!option.choices.empty() && !llvm::is_contained(option.choices, value.asString()))
    return fail(llvm::join(option.choices, " or "));
  if (value.kind() == Attribute::Kind::Int && (value.asInt() < 0 || value.asInt() > option.most))
    return fail("0 to " + Twine(option.most));
  return Error::success();
}

Expected<PassInvocation> makeInvocation(const PassDef &pass, AttributeMap given) {
  AttributeMap values;
  for (const PassOption &option : pass.options) {
    auto it = given.find(option.name);
    if (it == given.end()) {
      values.insert({option.name.str(), option.defaultValue});
      continue;
    }
    if (Error error = checkOption(pass, option, it->second))
      return error;
    values.insert(*it);
    given.erase(it);
  }
  if (!given.empty())
    return makeError("pass " + pass.name + ": unknown option '" + given.begin()->first + "'");
  return PassInvocation{&pass, PassOptions(std::move(values))};
}

/// Where the brace that `text` begins with is closed, or npos.
static size_t closingBrace(StringRef text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth == 0)
      return i;
  }
  return StringRef::npos;
}

/// Takes what stands before the next comma outside braces off the front of a list, with the comma.
static StringRef takeEntry(StringRef &text) {
  int depth = 0;
  StringRef entry = text.take_until([&](char c) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    return c == ',' && depth <= 0;
  });
  text = text.drop_front(std::min(text.size(), entry.size() + 1));
  return entry;
}

static Expected<AttributeMap> parseOptions(StringRef pass, StringRef text);

/// `2`, `true`, `consumer`, `{matmul=gemm_simt}`.
static Expected<Attribute> parseOptionValue(StringRef pass, StringRef text) {
  if (text.starts_with("{") && closingBrace(text) == text.size() - 1) {
    Expected<AttributeMap> inner = parseOptions(pass, text.drop_front().drop_back());
    return inner ? Expected<Attribute>(Attribute(std::move(*inner))) : inner.takeError();
  }
  int64_t integer = 0;
  if (!text.getAsInteger(10, integer))
    return Attribute(integer);
  if (text == "true" || text == "false")
    return Attribute(text == "true");
  return Attribute::ident(text);
}

static Expected<AttributeMap> parseOptions(StringRef pass, StringRef text) {
  AttributeMap options;
  while (!text.empty()) {
    StringRef entry = takeEntry(text);
    auto [name, value] = entry.split('=');
    if (name.trim().empty() || value.trim().empty())
      return makeError("pass " + pass + ": expected name=value, got '" + entry + "'");
    Expected<Attribute> parsed = parseOptionValue(pass, value.trim());
    if (!parsed)
      return parsed.takeError();
    if (!options.insert({name.trim().str(), std::move(*parsed)}).second)
      return makeError("pass " + pass + ": option '" + name.trim() + "' is given twice");
  }
  return options;
}

/// Takes one `name{options}` off the front of a list.
static Expected<PassInvocation> parseInvocation(StringRef &text) {
  StringRef name = text.take_until([](char c) { return c == ',' || c == '{'; });
  if (name.trim().empty())
    return makeError("expected the name of a pass, got '" + text + "'");
  text = text.drop_front(name.size());
  name = name.trim();
  StringRef options;
  if (text.starts_with("{")) {
    size_t end = closingBrace(text);
    if (end == StringRef::npos)
      return makeError("pass " + name + ": expected '}' after its options");
    options = text.slice(1, end);
    text = text.drop_front(end + 1).ltrim();
  }
  auto it = llvm::find_if(allPasses(), [&](const PassDef *pass) { return pass->name == name; });
  if (it == allPasses().end())
    return makeError("unknown pass '" + name + "'; kiln-opt --list-passes shows them all" +
                     didYouMean(name, llvm::map_range(allPasses(), [](const PassDef *pass) { return pass->name; })));
  Expected<AttributeMap> given = parseOptions(name, options);
  if (!given)
    return given.takeError();
  return makeInvocation(**it, std::move(*given));
}

Expected<std::vector<PassInvocation>> parsePasses(StringRef text) {
  std::vector<PassInvocation> passes;
  StringRef rest = text.trim();
  while (!rest.empty()) {
    Expected<PassInvocation> invocation = parseInvocation(rest);
    if (!invocation)
      return invocation.takeError();
    passes.push_back(std::move(*invocation));
    if (rest.empty())
      break;
    if (!rest.consume_front(","))
      return makeError("expected ',' between passes, got '" + rest + "'");
    rest = rest.ltrim();
    if (rest.empty())
      return makeError("expected the name of a pass after '" + text.trim() + "'");
  }
  return passes;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// The verifier's complaint after a pass, with a reproducer where one is wanted.
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

Error runPasses(Module &module, ArrayRef<PassInvocation> passes, const PassInstrumentation &instrumentation) {
  for (const PassInvocation &invocation : passes) {
    if (instrumentation.before)
      if (Error error = instrumentation.before(invocation, module))
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
