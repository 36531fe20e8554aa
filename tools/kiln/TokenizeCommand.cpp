#include "tools/kiln/Commands.h"
#include "tools/kiln/Input.h"
#include "tools/session/ModelOptions.h"
#include "tools/session/UsageError.h"

#include "runtime/text/Tokenizer.h"
#include "support/files/File.h"
#include "support/process/Process.h"
#include "support/text/Json.h"

namespace kiln {

Error run(const TokenizeCommand &command) {
  if (isPlan(command.model))
    return makeUsageError("MODEL: " + command.model +
                          " is a compiled plan, which has no vocabulary; give the directory that has it");
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
  for (const std::string &text : texts) {
    std::vector<int32_t> ids = tokenizer->encode(text, command.special);
    if (command.json)
      standardOutput() << jsonText(json::Object{{"tokens", json::Array(ids)}}) << '\n';
    else
      standardOutput() << llvm::join(llvm::map_range(ids, [](int32_t id) { return std::to_string(id); }), " ") << '\n';
  }
  return Error::success();
}

} // namespace kiln
