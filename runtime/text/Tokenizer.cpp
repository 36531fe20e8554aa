#include "runtime/text/Tokenizer.h"

#include "runtime/text/PreTokenizer.h"
#include "support/Diagnostic.h"
#include "support/text/Utf8.h"

namespace kiln {

Expected<Tokenizer> Tokenizer::load(StringRef directory) {
  Expected<Vocabulary> vocabulary = loadVocabulary(directory);
  if (!vocabulary)
    return vocabulary.takeError();
  return Tokenizer(std::move(*vocabulary));
}

Tokenizer::Tokenizer(Vocabulary given) : vocabulary(std::move(given)), encoder(vocabulary) {
  for (const auto &[text, id] : vocabulary.specials)
    startsSpecial[static_cast<uint8_t>(text.front())] = true;
}

std::optional<int32_t> Tokenizer::endOfText() const {
  auto known = vocabulary.specials.find("<|endoftext|>");
  return known == vocabulary.specials.end() ? std::nullopt : std::optional(known->second);
}

std::optional<std::pair<int32_t, size_t>> Tokenizer::matchSpecial(StringRef text) const {
  if (!startsSpecial[static_cast<uint8_t>(text.front())])
    return std::nullopt;
  // A prefix sorts before longer strings, so the last match is the longest.
  std::optional<std::pair<int32_t, size_t>> longest;
  for (const auto &[special, id] : vocabulary.specials)
    if (text.starts_with(special))
      longest = {id, special.size()};
  return longest;
}

void Tokenizer::encodeOrdinary(StringRef text, std::vector<int32_t> &ids, BytePairEncoder::Scratch &scratch) const {
  while (!text.empty()) {
    StringRef piece = firstPreToken(text);
    encoder.encode(piece, ids, scratch);
    text = text.drop_front(piece.size());
  }
}

std::vector<int32_t> Tokenizer::encode(StringRef bytes, bool special) const {
  std::string valid;
  if (!json::isUTF8(bytes))
    valid = replaceInvalidUtf8(bytes);
  StringRef text = valid.empty() ? bytes : StringRef(valid);

  std::vector<int32_t> ids;
  BytePairEncoder::Scratch scratch;
  size_t ordinaryStart = 0;
  for (size_t at = 0; special && at < text.size();) {
    auto match = matchSpecial(text.drop_front(at));
    if (!match) {
      ++at;
      continue;
    }
    encodeOrdinary(text.slice(ordinaryStart, at), ids, scratch);
    ids.push_back(match->first);
    at += match->second;
    ordinaryStart = at;
  }
  encodeOrdinary(text.drop_front(ordinaryStart), ids, scratch);
  return ids;
}

Expected<StringRef> Tokenizer::tokenBytes(int32_t id) const {
  if (id < 0 || id >= vocabSize())
    return makeError("token id: expected 0.." + Twine(vocabSize() - 1) + ", got " + Twine(id));
  return StringRef(vocabulary.tokens[id]);
}

Expected<std::string> Tokenizer::decode(ArrayRef<int32_t> ids) const {
  std::string result;
  for (int32_t id : ids) {
    Expected<StringRef> bytes = tokenBytes(id);
    if (!bytes)
      return bytes.takeError();
    result += *bytes;
  }
  return result;
}

Expected<std::string> StreamingDecoder::push(int32_t id) {
  Expected<StringRef> bytes = tokenizer->tokenBytes(id);
  if (!bytes)
    return bytes.takeError();
  tail += *bytes;
  StringRef complete = StringRef(tail).drop_back(incompleteTailLength(tail));
  std::string text = replaceInvalidUtf8(complete);
  tail.erase(0, complete.size());
  return text;
}

std::string StreamingDecoder::finish() { return replaceInvalidUtf8(std::exchange(tail, {})); }

} // namespace kiln
