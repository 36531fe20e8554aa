// Mutations of words, bracketed groups and lines. libFuzzer's own mutations, of bytes, seldom keep a text within its
// grammar.
#include "support/ADT.h"

#include <cstring>
#include <random>

using namespace kiln;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

using Pieces = std::vector<std::string>;

bool isWordChar(char c) { return llvm::isAlnum(c) || StringRef("_.%@-").contains(c); }
bool isWord(StringRef piece) { return isWordChar(piece.front()); }
bool isNumber(StringRef piece) {
  return llvm::isDigit(piece.front()) || (piece.size() > 1 && piece.front() == '-' && llvm::isDigit(piece[1]));
}
bool isOpening(StringRef piece) { return StringRef("{[(\"").contains(piece.front()); }

/// Words; each character between words is a piece of its own.
Pieces wordsOf(StringRef text) {
  Pieces words;
  while (!text.empty()) {
    size_t length = std::max<size_t>(1, text.take_while(isWordChar).size());
    words.push_back(text.take_front(length).str());
    text = text.drop_front(length);
  }
  return words;
}

/// Lines with their line ends.
Pieces linesOf(StringRef text) {
  Pieces lines;
  while (!text.empty()) {
    size_t length = std::min(text.size(), text.take_until([](char c) { return c == '\n'; }).size() + 1);
    lines.push_back(text.take_front(length).str());
    text = text.drop_front(length);
  }
  return lines;
}

class Mutation {
public:
  Mutation(StringRef text, unsigned seed) : text(text), random(seed) {}

  std::string apply() {
    size_t kind = pick(8);
    pieces = kind == 0 ? linesOf(text) : wordsOf(text);
    for (size_t i = 0, count = 1 + pick(2); i < count && !pieces.empty(); ++i)
      if (kind < 4)
        changeOne();
      else if (kind < 6)
        changeEverywhere();
      else
        changeGroup();
    return llvm::join(pieces, "");
  }

  /// The text with some lines of another.
  std::string cross(StringRef other) {
    pieces = linesOf(text);
    Pieces others = linesOf(other);
    size_t first = pick(others.size()), count = 1 + pick(std::min<size_t>(4, others.size() - first));
    auto begin = others.begin() + static_cast<ptrdiff_t>(first);
    size_t at = pick(pieces.size());
    if (pick(2))
      pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(at),
                   pieces.begin() + static_cast<ptrdiff_t>(std::min(pieces.size(), at + count)));
    pieces.insert(pieces.begin() + static_cast<ptrdiff_t>(at), begin, begin + static_cast<ptrdiff_t>(count));
    return llvm::join(pieces, "");
  }

private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); }

  /// A piece for which `wanted` holds, or any piece if there is none.
  size_t find(function_ref<bool(StringRef)> wanted) {
    size_t start = pick(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i)
      if (wanted(pieces[(start + i) % pieces.size()]))
        return (start + i) % pieces.size();
    return start;
  }

  /// A replacement for a piece: a value for a value, a number for a number.
  std::string alike(const std::string &piece) {
    if (isNumber(piece) && pick(2))
      return number();
    return pieces[find([&](StringRef other) {
      bool isAlike = other.front() == piece.front() || (isNumber(other) && isNumber(piece)) ||
                     (llvm::isAlpha(other.front()) && llvm::isAlpha(piece.front()));
      return isAlike && other != piece;
    })];
  }

  std::string number() {
    static constexpr StringRef numbers[] = {"0",
                                            "1",
                                            "2",
                                            "3",
                                            "4",
                                            "7",
                                            "8",
                                            "12",
                                            "16",
                                            "17",
                                            "32",
                                            "64",
                                            "65",
                                            "128",
                                            "256",
                                            "768",
                                            "1024",
                                            "1025",
                                            "2048",
                                            "50257",
                                            "65535",
                                            "65536",
                                            "2147483647",
                                            "2147483648",
                                            "4294967296",
                                            "281474976710656",
                                            "9223372036854775807",
                                            "-9223372036854775808",
                                            "-1",
                                            "1e-5",
                                            "0.0",
                                            "-0.0",
                                            "0.5",
                                            "1e308",
                                            "1e-320",
                                            "1e309",
                                            "nan",
                                            "inf",
                                            "true"};
    return numbers[pick(std::size(numbers))].str();
  }

  void changeOne() {
    // Words are chosen more often than the characters between them.
    size_t at = pick(4) ? find(isWord) : pick(pieces.size());
    switch (pick(5)) {
    case 0:
      pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(at));
      break;
    case 1:
      pieces.insert(pieces.begin() + static_cast<ptrdiff_t>(pick(pieces.size())), std::string(pieces[at]));
      break;
    case 2:
      std::swap(pieces[at], pieces[pick(pieces.size())]);
      break;
    default:
      pieces[at] = alike(pieces[at]);
    }
  }

  /// Changes a name or a number at all its places, so that types still agree.
  void changeEverywhere() {
    std::string from = pieces[find(isWord)], to = alike(from);
    std::replace(pieces.begin(), pieces.end(), from, to);
  }

  /// The place at which the bracket or quote at `first` is closed, or the end of the text.
  size_t closing(size_t first) const {
    char open = pieces[first].front(), close = open == '{' ? '}' : open == '[' ? ']' : open == '(' ? ')' : '"';
    int depth = 1;
    for (size_t at = first + 1; at < pieces.size(); ++at) {
      depth += pieces[at].front() == close ? -1 : pieces[at].front() == open ? 1 : 0;
      if (depth == 0)
        return at;
    }
    return pieces.size() - 1;
  }

  /// Replaces a group or a word by another one.
  void changeGroup() {
    auto stretch = [&](bool isGroup) {
      size_t first = isGroup ? find(isOpening) : find(isWord);
      return std::pair(first, isOpening(pieces[first]) ? closing(first) + 1 : first + 1);
    };
    bool fromGroup = pick(3);
    auto [fromBegin, fromEnd] = stretch(fromGroup);
    auto [toBegin, toEnd] = stretch(!fromGroup || pick(2));
    Pieces with(pieces.begin() + static_cast<ptrdiff_t>(toBegin), pieces.begin() + static_cast<ptrdiff_t>(toEnd));
    if (!pick(4))
      with.clear();
    pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(fromBegin), pieces.begin() + static_cast<ptrdiff_t>(fromEnd));
    pieces.insert(pieces.begin() + static_cast<ptrdiff_t>(fromBegin), with.begin(), with.end());
  }

  StringRef text;
  Pieces pieces;
  std::minstd_rand random;
};

StringRef textOf(const uint8_t *data, size_t size) { return {reinterpret_cast<const char *>(data), size}; }

size_t put(StringRef text, uint8_t *out, size_t maxSize) {
  size_t length = std::min(text.size(), maxSize);
  std::memcpy(out, text.data(), length);
  return length;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  if (seed % 4 == 0 || size == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  return put(Mutation(textOf(data, size), seed / 4).apply(), data, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t firstSize, const uint8_t *second,
                                            size_t secondSize, uint8_t *out, size_t maxSize, unsigned seed) {
  if (firstSize == 0 || secondSize == 0)
    return 0;
  return put(Mutation(textOf(first, firstSize), seed).cross(textOf(second, secondSize)), out, maxSize);
}
