// Lines of `kiln run --input`. Those that are accepted are prompts and options that the generator takes; each line
// gives the same requests alone; errors have a place.
#include "Fuzz.h"

#include "tools/kiln/run/RequestLines.h"

using namespace kiln;

static const Tokenizer &tokenizer() {
  static const Tokenizer tokenizer = cantFail(Tokenizer::load(KILN_SOURCE_DIR "/graphs/shakespeare-5m"));
  return tokenizer;
}

static void checkRequest(const LineRequest &request, const LineContext &context) {
  const SequenceOptions &options = request.generation.options;
  require(promptProblem(request.generation.prompt, options, context.vocabulary, context.context).empty(),
          "a prompt that the model does not take");
  require(!static_cast<bool>(checkSamplingParams(options.sampling)), "options of sampling that are none");
  require(!llvm::is_contained(options.stopStrings, ""), "an empty stop string");
  require(options.maxNewTokens >= 0, "a count that is none");
  for (auto [id, bias] : options.logits.bias)
    require(id >= 0 && id < context.vocabulary && std::abs(bias) <= 1000, "a bias that is none");
  require(request.generation.sequence == static_cast<uint64_t>(request.sample.value_or(0)), "noise of another sample");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StringRef text = inputText(data, size);
  LineContext context;
  context.defaults.overflow = OverflowPolicy::Stop;
  context.tokenizer = &tokenizer();
  context.begin = 1008;
  context.vocabulary = 1009;
  context.context = 64;
  Expected<std::vector<LineRequest>> requests = parseRequestLines("input.jsonl", text, context);
  if (!requests)
    return requireFile(requests.takeError());
  for (const LineRequest &request : *requests)
    checkRequest(request, context);
  size_t count = 0;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    auto alone = cantFail(parseRequestLines("line.jsonl", line, context));
    for (const LineRequest &request : alone) {
      require(count < requests->size(), "a line that gives more alone");
      require(request.generation.prompt == (*requests)[count++].generation.prompt, "a line that gives others alone");
    }
  }
  require(count == requests->size(), "a line that gives fewer alone");
  return 0;
}
