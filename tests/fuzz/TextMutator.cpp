// Changes of whole words and lines: libFuzzer's own, of bytes, seldom make another text of a grammar from a text of it.
#include "support/ADT.h"

#include <cstring>
#include <random>

using namespace kiln;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

using Pieces = std::vector<std::string>;

bool isWordChar(char c) { return llvm::isAlnum(c) || StringRef("_.%@-").contains(c); }
bool isNumber(StringRef word) { return llvm::isDigit(word.front()) || (word.size() > 1 && llvm::isDigit(word[1])); }

/// Words, and what stands between them a character each.
Pieces wordsOf(StringRef text) {
  Pieces words;
  while (!text.empty()) {
    size_t length = std::max<size_t>(1, text.take_while(isWordChar).size());
    words.push_back(text.take_front(length).str());
    text = text.drop_front(length);
  }
  return words;
}

Pieces linesOf(StringRef text) {
  Pieces lines;
  while (!text.empty()) {
    size_t length = std::min(text.size(), text.find('\n') == StringRef::npos ? text.size() : text.find('\n') + 1);
    lines.push_back(text.take_front(length).str());
    text = text.drop_front(length);
  }
  return lines;
}

class Mutation {
public:
  Mutation(Pieces pieces, unsigned seed) : pieces(std::move(pieces)), random(seed) {}

  std::string apply() {
    for (size_t i = 0, count = 1 + pick(3); i < count && !pieces.empty(); ++i)
      change();
    return llvm::join(pieces, "");
  }

private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); }

  /// A piece that begins as this one does, so that a value takes the place of a value.
  const std::string &alike(const std::string &piece) {
    size_t start = pick(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::string &other = pieces[(start + i) % pieces.size()];
      bool isAlike = other.front() == piece.front() || (isNumber(other) && isNumber(piece)) ||
                     (llvm::isAlpha(other.front()) && llvm::isAlpha(piece.front()));
      if (isAlike && other != piece)
        return other;
    }
    return pieces[start];
  }

  std::string number() {
    static constexpr StringRef numbers[] = {"0",
                                            "1",
                                            "2",
                                            "3",
                                            "7",
                                            "8",
                                            "16",
                                            "64",
                                            "65",
                                            "1024",
                                            "65536",
                                            "2147483647",
                                            "2147483648",
                                            "-1",
                                            "1e-5",
                                            "1e308",
                                            "4294967296",
                                            "281474976710656",
                                            "nan",
                                            "inf",
                                            "0.5",
                                            "9223372036854775807",
                                            "-9223372036854775808"};
    return numbers[pick(std::size(numbers))].str();
  }

  void change() {
    size_t at = pick(pieces.size());
    // A word more often than what stands between words.
    for (int i = 0; i < 8 && !isWordChar(pieces[at].front()); ++i)
      at = pick(pieces.size());
    switch (pick(6)) {
    case 0:
      pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(at));
      break;
    case 1:
      pieces.insert(pieces.begin() + static_cast<ptrdiff_t>(pick(pieces.size())), std::string(pieces[at]));
      break;
    case 2:
      std::swap(pieces[at], pieces[pick(pieces.size())]);
      break;
    case 3:
    case 4:
      pieces[at] = std::string(alike(pieces[at]));
      break;
    default:
      if (isNumber(pieces[at]))
        pieces[at] = number();
      else
        pieces[at] = std::string(alike(pieces[at]));
    }
  }

  Pieces pieces;
  std::minstd_rand random;
};

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  if (seed % 3 == 0 || size == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  StringRef text(reinterpret_cast<const char *>(data), size);
  std::string changed = Mutation(seed % 3 == 1 ? wordsOf(text) : linesOf(text), seed / 3).apply();
  size_t length = std::min(changed.size(), maxSize);
  std::memcpy(data, changed.data(), length);
  return length;
}
