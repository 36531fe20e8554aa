// Files of `kiln eval`: token files, llm.c's multiple-choice questions, lines of JSON, texts. What is accepted is what
// a model takes: ids of its vocabulary, questions with endings and a label among them; errors name the file. The input
// is read as what it is recognised as, and as lines, tokens and questions.
#include "Fuzz.h"

#include "runtime/text/EvalData.h"

using namespace kiln;

static constexpr int64_t vocabularySize = 1009;

static void checkIds(ArrayRef<int32_t> ids) {
  for (int32_t id : ids)
    require(id >= 0 && id < vocabularySize, "an id that the model does not have");
}

static void checkData(const EvalData &data) {
  checkIds(data.tokens);
  require(data.tokens.empty() || data.examples.empty(), "a text that is also questions");
  for (const ChoiceExample &example : data.examples) {
    require(!example.context.empty(), "a question without a context");
    require(example.endings.size() >= 2 && example.label < example.endings.size(), "a label that is no ending");
    checkIds(example.context);
    for (const std::vector<int32_t> &ending : example.endings) {
      require(!ending.empty(), "an ending without tokens");
      checkIds(ending);
    }
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Tokenizer tokenizer = cantFail(Tokenizer::load(KILN_SOURCE_DIR "/graphs/shakespeare-5m"));
  for (std::optional<EvalForm> form : {std::optional<EvalForm>(), std::optional(EvalForm::Jsonl),
                                       std::optional(EvalForm::Tokens), std::optional(EvalForm::HellaSwag)}) {
    auto read = parseEvalData("input.bin", inputText(data, size), form, &tokenizer, vocabularySize);
    if (read)
      checkData(*read);
    else
      requireFile(read.takeError());
  }
  return 0;
}
