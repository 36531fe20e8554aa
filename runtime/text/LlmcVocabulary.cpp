//===- LlmcVocabulary.cpp - merges for llm.c's tokenizer -----------------------===//

#include "formats/LlmcTokenizer.h"
#include "runtime/text/VocabularyBuilder.h"
#include "support/Diagnostic.h"

#include <limits>

namespace kiln {

namespace {
/// Finds the merge that makes each token: with the merges found so far, its bytes must come down to two tokens.
class MergeFinder {
public:
  explicit MergeFinder(StringRef path) : path(path) {}

  Error addToken(StringRef bytes, int32_t id);
  Expected<Vocabulary> finish(Vocabulary vocabulary);

private:
  Error fail(int32_t id, const Twine &message) const {
    return makeFileError(path, "token " + Twine(id) + ": " + message);
  }
  SmallVector<StringRef, 8> parts(StringRef bytes) const;

  StringRef path;
  StringMap<int32_t> idOf;
  std::vector<Vocabulary::Merge> merges;
};
} // namespace

/// The tokens that a text becomes with the tokens so far, by the order of their ids.
SmallVector<StringRef, 8> MergeFinder::parts(StringRef bytes) const {
  SmallVector<StringRef, 8> list;
  for (size_t i = 0; i < bytes.size(); ++i)
    list.push_back(bytes.substr(i, 1));
  while (list.size() > 2) {
    size_t best = 0;
    int32_t least = std::numeric_limits<int32_t>::max();
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      auto known = idOf.find(StringRef(list[i].data(), list[i].size() + list[i + 1].size()));
      if (known != idOf.end() && known->second < least)
        std::tie(best, least) = std::pair(i, known->second);
    }
    if (least == std::numeric_limits<int32_t>::max())
      break;
    list[best] = StringRef(list[best].data(), list[best].size() + list[best + 1].size());
    list.erase(list.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  return list;
}

Error MergeFinder::addToken(StringRef bytes, int32_t id) {
  if (bytes.empty())
    return fail(id, "expected at least one byte, got none");
  if (idOf.contains(bytes))
    return fail(id, "expected bytes that no other token has, got those of token " + Twine(idOf.lookup(bytes)));
  if (bytes.size() > 1) {
    SmallVector<StringRef, 8> two = parts(bytes);
    if (two.size() != 2 || !idOf.contains(two[0]) || !idOf.contains(two[1]))
      return fail(id, "expected one merge of two tokens before it, got " + Twine(two.size()) +
                          " parts: the tokens are not in the order of their merges; put vocab.json and merges.txt into "
                          "this folder, which are preferred");
    merges.push_back({idOf.lookup(two[0]), idOf.lookup(two[1]), id});
  }
  idOf[bytes] = id;
  return Error::success();
}

Expected<Vocabulary> MergeFinder::finish(Vocabulary vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    auto character = static_cast<char>(byte);
    auto known = idOf.find(StringRef(&character, 1));
    if (known == idOf.end())
      return makeFileError(path, formatv("expected a token for each byte, got none for 0x{0:X-2}", byte).str());
    vocabulary.byteTokens[byte] = known->second;
  }
  vocabulary.merges = std::move(merges);
  return vocabulary;
}

Expected<Vocabulary> readLlmcVocabulary(StringRef path) {
  Expected<LlmcTokenizer> tokenizer = readLlmcTokenizer(path);
  if (!tokenizer)
    return tokenizer.takeError();
  MergeFinder finder(path);
  Vocabulary vocabulary;
  for (const auto &[id, bytes] : llvm::enumerate(tokenizer->tokens)) {
    auto number = static_cast<int32_t>(id);
    if (number == tokenizer->endOfText)
      continue;
    if (Error error = finder.addToken(bytes, number))
      return error;
  }
  // The format has no names for special tokens; this one has its name as its bytes.
  if (!tokenizer->tokens[tokenizer->endOfText].empty())
    vocabulary.specials.emplace(tokenizer->tokens[tokenizer->endOfText], tokenizer->endOfText);
  vocabulary.tokens = std::move(tokenizer->tokens);
  return finder.finish(std::move(vocabulary));
}

} // namespace kiln
