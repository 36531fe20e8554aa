// IR text, one module, through passes and code generation, as far as they go; NVRTC is not called. Comments before the
// module may have options: --passes='a,b{n=2}' replaces the whole pipeline; --strategy=, --dtype= and --target= change
// it. No pass makes ill-formed IR, the result reads back, and the generated plan passes the plan's checker.
#include "Fuzz.h"

#include "codegen/Generate.h"
#include "ir/Parser.h"
#include "ops/OpTable.h"
#include "strategies/Strategy.h"

using namespace kiln;

/// The value of `--NAME=` in the comments, in quotes or up to white space.
static StringRef optionOf(StringRef comments, StringRef name) {
  size_t at = comments.find(("--" + name + "=").str());
  if (at == StringRef::npos)
    return {};
  StringRef value = comments.drop_front(at + name.size() + 3);
  if (value.consume_front("'"))
    return value.take_until([](char c) { return c == '\''; });
  return value.take_until([](char c) { return llvm::isSpace(c); });
}

/// The comments and blank lines at the start of a text.
static StringRef leadingComments(StringRef text) {
  StringRef rest = text;
  while (rest.ltrim().starts_with("//"))
    rest = rest.ltrim().split('\n').second;
  return text.drop_back(rest.size());
}

static Expected<std::vector<PassInvocation>> chosenPasses(StringRef comments) {
  if (StringRef passes = optionOf(comments, "passes"); !passes.empty())
    return parsePasses(passes);
  PipelineOptions options;
  StringRef dtype = optionOf(comments, "dtype"), target = optionOf(comments, "target");
  if (dtype == "f16" || dtype == "bf16" || dtype == "tf32")
    options.dtype = dtype.str();
  if (!target.empty())
    options.target = target.str();
  if (StringRef strategy = optionOf(comments, "strategy"); !strategy.empty())
    if (Error error = applyStrategies(strategy, options))
      return error;
  return pipeline(Stage::Plan, options);
}

/// Whether a pass would read one of the user's files.
static bool readsFiles(const PassInvocation &invocation) {
  auto tuning = invocation.options.all().find("tuning");
  return tuning != invocation.options.all().end() && tuning->second.asString() != "none" &&
         tuning->second.asString() != "shipped";
}

/// Requires that the error refuses the input, and is not a mistake of a pass.
static void requireRefusal(Error error) {
  for (const Diagnostic &diagnostic : takeDiagnostics(std::move(error)))
    require(!StringRef(diagnostic.message).contains("made ill-formed IR"), diagnostic.message);
}

/// Code generation may refuse the user's bounds, but not the results of plan-memory. Given passes may have left out
/// plan-memory.
static void requireGoodPlan(Error error) {
  for (const Diagnostic &diagnostic : takeDiagnostics(std::move(error)))
    for (StringRef key : {"offset: ", "live: ", "arena: ", "arguments: "})
      require(!StringRef(diagnostic.message).starts_with(key), "a plan that is refused: " + diagnostic.message);
}

static void checkPlan(const Plan &plan) {
  SourceManager sources;
  std::string text = writePlan(plan);
  Expected<Plan> read = parsePlan(sources.add("plan.toml", text));
  if (!read)
    require(false, "a generated plan that is refused: " + toString(read.takeError()));
  requireEqual(text, writePlan(*read), "a generated plan that reads as another");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  SourceManager sources;
  StringRef text = inputText(data, size);
  Expected<std::vector<PassInvocation>> passes = chosenPasses(leadingComments(text));
  if (!passes || llvm::any_of(*passes, readsFiles)) {
    llvm::consumeError(passes.takeError());
    return -1;
  }
  Expected<std::unique_ptr<Module>> module = parseModule(sources.add("input.kiln", text.str()), sources, opTable());
  if (!module) {
    llvm::consumeError(module.takeError()); // the target ir tests these
    return -1;
  }
  if (Error error = runPasses(**module, *passes)) {
    requireRefusal(std::move(error));
    return 0;
  }
  requireRoundTrip(**module);
  Expected<GeneratedPlan> generated = generate(**module);
  bool isWhole = optionOf(leadingComments(text), "passes").empty();
  if (generated)
    checkPlan(generated->plan);
  else if (isWhole)
    requireGoodPlan(generated.takeError());
  else
    requireRefusal(generated.takeError());
  return 0;
}
