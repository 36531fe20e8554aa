#include "runtime/text/VocabularyText.h"

#include "runtime/text/ByteAlphabet.h"
#include "support/text/Json.h"

namespace kiln {

static constexpr StringRef endOfTextName = "<|endoftext|>";

static bool isSpecial(const Vocabulary &vocabulary, int32_t id) {
  auto known = vocabulary.specials.find(vocabulary.tokens[id]);
  return known != vocabulary.specials.end() && known->second == id;
}

std::string tokenSpelling(const Vocabulary &vocabulary, int32_t id) {
  const std::string &bytes = vocabulary.tokens[id];
  if (isSpecial(vocabulary, id))
    return bytes;
  std::string spelling;
  for (char byte : bytes)
    spelling += spellByte(static_cast<uint8_t>(byte));
  return spelling;
}

std::string mergeSpelling(const Vocabulary &vocabulary, const Vocabulary::Merge &merge) {
  return tokenSpelling(vocabulary, merge.left) + " " + tokenSpelling(vocabulary, merge.right);
}

/// An object of `"token": id`, in the order of the ids.
static std::string tokenObject(const Vocabulary &vocabulary, ArrayRef<int32_t> ids) {
  std::string text = "{";
  for (int32_t id : ids)
    text += (text.size() > 1 ? ", " : "") + jsonText(tokenSpelling(vocabulary, id)) + ": " + std::to_string(id);
  return text + "}\n";
}

std::map<std::string, std::string> vocabularyFiles(const Vocabulary &vocabulary) {
  std::vector<int32_t> own, added;
  for (int32_t id = 0; id < static_cast<int32_t>(vocabulary.tokens.size()); ++id)
    (isSpecial(vocabulary, id) && vocabulary.tokens[id] != endOfTextName ? added : own).push_back(id);
  std::string merges = "#version: 0.2\n";
  for (const Vocabulary::Merge &merge : vocabulary.merges)
    merges += mergeSpelling(vocabulary, merge) + "\n";
  std::map<std::string, std::string> files = {{"vocab.json", tokenObject(vocabulary, own)}, {"merges.txt", merges}};
  if (!added.empty())
    files["added_tokens.json"] = tokenObject(vocabulary, added);
  return files;
}

} // namespace kiln
