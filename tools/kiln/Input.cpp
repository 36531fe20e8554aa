#include "tools/kiln/Input.h"
#include "tools/session/UsageError.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"

namespace kiln {

Expected<std::vector<int32_t>> parseTokens(StringRef text) {
  std::vector<int32_t> ids;
  SmallVector<StringRef, 16> parts, words;
  text = text.trim();
  if (!text.empty())
    text.split(parts, ',');
  for (StringRef part : parts) {
    words.clear();
    llvm::SplitString(part, words, " \t\r\n");
    if (words.empty())
      words.push_back(""); // two commas with nothing between them
    for (StringRef word : words)
      if (word.getAsInteger(10, ids.emplace_back()) || ids.back() < 0)
        return makeError("--tokens: expected token ids like 1,2,3, got '" + word + "'");
  }
  return ids;
}

/// The ids of one prompt. Error: as of readPrompts.
static Expected<std::vector<int32_t>> readPrompt(const GivenPrompt &prompt, const Tokenizer *tokenizer, bool special,
                                                 StringRef directory) {
  bool isValue = prompt.kind == GivenPrompt::Kind::Text || (!prompt.isText() && !prompt.isStandardInput());
  Expected<std::string> text = isValue ? Expected<std::string>(prompt.value) : readInput(prompt.value);
  if (!text)
    return text.takeError();
  if (prompt.isText() && !tokenizer)
    return makeFileError(directory, "no vocabulary here (vocab.json and merges.txt, or tokenizer.json): give --tokens");
  if (prompt.isText())
    return tokenizer->encode(*text, special);
  Expected<std::vector<int32_t>> ids = parseTokens(*text);
  if (!ids && isValue)
    return asUsageError(ids.takeError());
  return ids;
}

Expected<std::vector<std::vector<int32_t>>> readPrompts(const PromptOptions &options, const Tokenizer *tokenizer,
                                                        StringRef directory) {
  std::vector<std::vector<int32_t>> prompts;
  for (const GivenPrompt &prompt : options.given)
    if (Error error = readPrompt(prompt, tokenizer, options.special, directory).moveInto(prompts.emplace_back()))
      return error;
  if (prompts.empty())
    prompts.emplace_back();
  return prompts;
}

} // namespace kiln
