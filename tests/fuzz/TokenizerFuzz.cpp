// Arbitrary bytes as text, with the vocabulary of graphs/shakespeare-5m. Encoded text decodes to the same text, at once
// and token by token, with special tokens and without.
#include "Fuzz.h"

#include "runtime/text/PreTokenizer.h"
#include "runtime/text/Tokenizer.h"
#include "support/text/Utf8.h"

using namespace kiln;

static const Tokenizer &tokenizer() {
  static const Tokenizer tokenizer = cantFail(Tokenizer::load(KILN_SOURCE_DIR "/graphs/shakespeare-5m"));
  return tokenizer;
}

static void checkIds(ArrayRef<int32_t> ids, StringRef text) {
  StreamingDecoder decoder(tokenizer());
  std::string streamed;
  for (int32_t id : ids)
    streamed += cantFail(decoder.push(id));
  streamed += decoder.finish();
  requireEqual(cantFail(tokenizer().decode(ids)), text, "tokens that decode to another text");
  requireEqual(streamed, text, "tokens that decode to another text one by one");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StringRef bytes = inputText(data, size);
  std::string text = replaceInvalidUtf8(bytes);
  require(json::isUTF8(text), "a text that is still not UTF-8");
  require(!json::isUTF8(bytes) || text == bytes, "a text that was changed without need");
  require(incompleteTailLength(bytes) <= std::min<size_t>(size, 3), "a tail longer than a character");

  for (StringRef rest = text; !rest.empty();) {
    StringRef piece = firstPreToken(rest);
    require(!piece.empty() && piece.data() == rest.data() && piece.size() <= rest.size(), "pieces that are no pieces");
    rest = rest.drop_front(piece.size());
  }
  checkIds(tokenizer().encode(bytes), text);
  checkIds(tokenizer().encode(bytes, /*special=*/true), text);
  return 0;
}
