#include "tools/kiln/Commands.h"
#include "tools/kiln/Input.h"

#include "runtime/text/Tokenizer.h"
#include "support/Diagnostic.h"
#include "support/File.h"

namespace kiln {

Error run(const TokenizeCommand &command) {
  Expected<Tokenizer> tokenizer = Tokenizer::load(command.model);
  if (!tokenizer)
    return tokenizer.takeError();
  std::vector<std::string> texts = command.texts;
  for (const std::string &file : command.files) {
    Expected<std::string> text = readInput(file);
    if (!text)
      return text.takeError();
    texts.push_back(std::move(*text));
  }
  if (texts.empty())
    return makeError("no text: give --text or --file");
  for (const std::string &text : texts) {
    std::vector<int32_t> ids = tokenizer->encode(text, command.special);
    if (command.json)
      llvm::outs() << json::Value(json::Object{{"tokens", json::Array(ids)}}) << '\n';
    else
      llvm::outs() << llvm::join(llvm::map_range(ids, [](int32_t id) { return std::to_string(id); }), " ") << '\n';
  }
  return Error::success();
}

} // namespace kiln
