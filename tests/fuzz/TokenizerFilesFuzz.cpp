// The files of a tokenizer: vocab.json, merges.txt and added_tokens.json, separated by lines of three dashes, or a
// tokenizer.json alone. "<bytes>":0 stands for the tokens of all bytes, 0 to 255, which every vocabulary needs. An
// accepted vocabulary encodes and decodes; errors name the file.
#include "Fuzz.h"

#include "runtime/text/ByteAlphabet.h"
#include "runtime/text/Tokenizer.h"

using namespace kiln;

static const std::string &byteTokens() {
  static const std::string text = [] {
    std::string list;
    raw_string_ostream os(list);
    for (int byte = 0; byte < 256; ++byte)
      os << (byte ? "," : "") << json::Value(spellByte(static_cast<uint8_t>(byte))) << ':' << byte;
    return list;
  }();
  return text;
}

static std::string expanded(StringRef text) {
  static constexpr StringRef shorthand = "\"<bytes>\":0";
  auto [before, after] = text.split(shorthand);
  return text.contains(shorthand) ? (before + byteTokens() + after).str() : text.str();
}

static void checkTokenizer(const Tokenizer &tokenizer) {
  for (StringRef text : {StringRef("to be, or not  to be\n"), StringRef("\0<|endoftext|>\xC3\xA9", 16)})
    for (bool special : {false, true})
      for (int32_t id : tokenizer.encode(text, special))
        require(id >= 0 && id < tokenizer.vocabSize(), "a token that is none");
  std::string ordinary = "to be,\t or not  to be\xC3\xA9\n";
  requireEqual(cantFail(tokenizer.decode(tokenizer.encode(ordinary))), ordinary, "tokens that decode to another text");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const FuzzDirectory directory;
  StringRef text = inputText(data, size);
  SmallVector<StringRef, 3> parts;
  text.split(parts, "\n---\n", /*MaxSplit=*/2);
  for (StringRef name : {"vocab.json", "merges.txt", "added_tokens.json", "tokenizer.json"})
    llvm::sys::fs::remove(directory.path(name));
  directory.write(parts.size() > 1 ? "vocab.json" : "tokenizer.json", expanded(parts[0]));
  if (parts.size() > 1)
    directory.write("merges.txt", parts[1]);
  if (parts.size() > 2)
    directory.write("added_tokens.json", parts[2]);
  Expected<Tokenizer> tokenizer = Tokenizer::load(directory.path());
  if (!tokenizer)
    return requireFile(tokenizer.takeError());
  checkTokenizer(*tokenizer);
  return 0;
}
