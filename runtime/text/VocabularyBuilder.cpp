#include "runtime/text/VocabularyBuilder.h"

#include "runtime/text/ByteAlphabet.h"
#include "support/Diagnostic.h"

namespace kiln {

/// A token in quotes, for error messages.
static std::string quote(StringRef spelling) { return ("'" + spelling + "'").str(); }

Error VocabularyBuilder::addTokens(const JsonObject &object) {
  for (const JsonObject::Member &member : object.members) {
    std::optional<int64_t> id = object.values.getInteger(member.key);
    if (!id)
      return makeError(member.valueLoc, quote(member.key) + ": expected an integer id");
    if (Error error = addToken(member.key, *id, member.keyLoc))
      return error;
  }
  return Error::success();
}

Error VocabularyBuilder::addToken(StringRef spelling, int64_t id, Location loc) {
  auto [known, isNew] = indexOf.try_emplace(spelling, tokens.size());
  if (!isNew)
    return makeError(loc, quote(spelling) + ": token is listed twice", tokens[known->second].loc, "first listed here");
  tokens.push_back({spelling.str(), id, loc, /*isSpecial=*/false});
  return Error::success();
}

Error VocabularyBuilder::addSpecial(StringRef text, int64_t id, Location loc) {
  if (text.empty())
    return makeError(loc, "added token: expected some text, got none");
  auto [known, isNew] = indexOf.try_emplace(text, tokens.size());
  if (isNew) {
    tokens.push_back({text.str(), id, loc, /*isSpecial=*/true});
    return Error::success();
  }
  Token &token = tokens[known->second];
  if (token.id != id)
    return makeError(loc, quote(text) + ": expected id " + Twine(token.id) + ", got " + Twine(id), token.loc,
                     "the token's other id is here");
  token.isSpecial = true;
  return Error::success();
}

Error VocabularyBuilder::checkIds() const {
  auto count = static_cast<int64_t>(tokens.size());
  std::vector<const Token *> byId(tokens.size());
  for (const Token &token : tokens) {
    if (token.id < 0 || token.id >= count)
      return makeError(token.loc, quote(token.spelling) + ": expected an id in 0.." + Twine(count - 1) +
                                      ", since there are " + Twine(count) + " tokens, got " + Twine(token.id));
    const Token *&other = byId[token.id];
    if (other)
      return makeError(token.loc,
                       quote(token.spelling) + ": id " + Twine(token.id) + " is taken by " + quote(other->spelling),
                       other->loc, "taken here");
    other = &token;
  }
  return Error::success();
}

Error VocabularyBuilder::findByteTokens(StringRef path) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling = spellByte(static_cast<uint8_t>(byte));
    auto fail = [&](const Twine &message) {
      return makeFileError(path, message + formatv(" 0x{0:X-2}, spelled '{1}'", byte, spelling).str());
    };
    auto known = indexOf.find(spelling);
    if (known == indexOf.end())
      return fail("expected a token for each byte, got none for");
    const Token &token = tokens[known->second];
    // A special token stands for its text, which is another than the byte.
    if (token.isSpecial && spelling != std::string(1, static_cast<char>(byte)))
      return fail("expected other special tokens than those of bytes, got that of");
    vocabulary.byteTokens[byte] = static_cast<int32_t>(token.id);
  }
  return Error::success();
}

Error VocabularyBuilder::finishTokens(StringRef path) {
  if (Error error = checkIds())
    return error;
  if (Error error = findByteTokens(path))
    return error;
  vocabulary.tokens.resize(tokens.size());
  for (const Token &token : tokens) {
    vocabulary.tokens[token.id] = token.isSpecial ? token.spelling : bytesOfToken(token.spelling);
    if (token.isSpecial)
      vocabulary.specials.emplace(token.spelling, static_cast<int32_t>(token.id));
  }
  return Error::success();
}

Error VocabularyBuilder::addMerge(StringRef left, Location leftLoc, StringRef right, Location rightLoc) {
  auto idOf = [&](StringRef spelling, Location loc, StringRef what) -> Expected<int32_t> {
    auto known = indexOf.find(spelling);
    if (known == indexOf.end())
      return makeError(loc, what + " of a merge: " + quote(spelling) + " is not in the vocabulary");
    return static_cast<int32_t>(tokens[known->second].id);
  };
  Expected<int32_t> leftId = idOf(left, leftLoc, "left part");
  if (!leftId)
    return leftId.takeError();
  Expected<int32_t> rightId = idOf(right, rightLoc, "right part");
  if (!rightId)
    return rightId.takeError();
  Expected<int32_t> resultId = idOf((left + right).str(), leftLoc, "result");
  if (!resultId)
    return resultId.takeError();
  auto [known, isNew] = mergeLocs.try_emplace({*leftId, *rightId}, leftLoc);
  if (!isNew)
    return makeError(leftLoc, "merge " + quote((left + " " + right).str()) + " is listed twice", known->second,
                     "first listed here");
  vocabulary.merges.push_back({*leftId, *rightId, *resultId});
  return Error::success();
}

/// True for spellings like `<pad>` and `[MASK]`.
static bool isInBrackets(StringRef spelling) {
  return spelling.size() > 2 && ((spelling.starts_with("<") && spelling.ends_with(">")) ||
                                 (spelling.starts_with("[") && spelling.ends_with("]")));
}

Error VocabularyBuilder::finishMerges(const SourceFile *file) const {
  std::vector<bool> isByte(tokens.size()), isMade(tokens.size());
  for (int32_t byte : vocabulary.byteTokens)
    isByte[byte] = true;
  for (const Vocabulary::Merge &merge : vocabulary.merges)
    isMade[merge.result] = true;
  size_t wanted = 0, missing = 0;
  const Token *first = nullptr;
  for (const Token &token : tokens) {
    if (isByte[token.id] || token.isSpecial || (!isMade[token.id] && isInBrackets(token.spelling)))
      continue;
    ++wanted;
    if (isMade[token.id])
      continue;
    ++missing;
    first = first ? first : &token;
  }
  if (!first)
    return Error::success();
  return makeError({file},
                   "expected merges that make each of the vocabulary's " + Twine(wanted) +
                       " tokens of several bytes, got none for " + Twine(missing) +
                       " of them: merges may be cut off, or special tokens missing from the added ones",
                   first->loc, "no merge makes " + quote(first->spelling));
}

} // namespace kiln
