// The text of --strategy, and the same text as that of --passes. Accepted strategies are recorded as text with the same
// meaning, and make a pipeline. Passes print as text with the same meaning.
#include "Fuzz.h"

#include "strategies/Strategy.h"

using namespace kiln;

static std::string textOf(ArrayRef<PassInvocation> passes) {
  return llvm::join(llvm::map_range(passes, [](const PassInvocation &pass) { return pass.str(); }), ",");
}

static void runStrategies(StringRef text) {
  PipelineOptions options;
  if (Error error = applyStrategies(text, options)) {
    requirePlace(std::move(error));
    return;
  }
  PipelineOptions again;
  if (Error error = applyStrategies(options.strategy, again))
    require(false, "a recorded strategy that is refused: " + options.strategy + ": " + toString(std::move(error)));
  requireEqual(options.strategy, again.strategy, "a recorded strategy that is recorded otherwise");
  requireEqual(textOf(pipeline(Stage::Plan, options)), textOf(pipeline(Stage::Plan, again)),
               "a recorded strategy with another pipeline");
}

static void runPassList(StringRef text) {
  Expected<std::vector<PassInvocation>> passes = parsePasses(text);
  if (!passes) {
    require(!takeDiagnostics(passes.takeError()).empty(), "an error without a message");
    return;
  }
  std::string printed = textOf(*passes);
  Expected<std::vector<PassInvocation>> again = parsePasses(printed);
  if (!again)
    require(false, "printed passes that are refused: " + printed + ": " + toString(again.takeError()));
  requireEqual(printed, textOf(*again), "printed passes that print as something else");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  runStrategies(inputText(data, size));
  runPassList(inputText(data, size));
  return 0;
}
