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

Expected<std::vector<std::vector<int32_t>>> readPrompts(const PromptOptions &options, const Tokenizer *tokenizer,
                                                        StringRef directory) {
  std::vector<std::string> texts = options.texts;
  for (const std::string &file : options.files) {
    Expected<std::string> text = readInput(file);
    if (!text)
      return text.takeError();
    texts.push_back(std::move(*text));
  }
  if (!texts.empty() && !tokenizer)
    return makeFileError(directory, "no vocabulary here (vocab.json and merges.txt, or tokenizer.json): give --tokens");
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string &text : texts)
    prompts.push_back(tokenizer->encode(text, options.special));
  for (const std::string &list : options.tokens) {
    bool isInput = list == "-";
    Expected<std::string> text = isInput ? readInput(list) : Expected<std::string>(list);
    if (!text)
      return text.takeError();
    Expected<std::vector<int32_t>> ids = parseTokens(*text);
    if (!ids)
      return isInput ? ids.takeError() : asUsageError(ids.takeError());
    prompts.push_back(std::move(*ids));
  }
  if (prompts.empty())
    prompts.emplace_back();
  return prompts;
}

} // namespace kiln
