#include "support/text/Printable.h"

#include "support/text/Utf8.h"

namespace kiln {

std::string printable(StringRef text, StringRef kept) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    Utf8Character character = firstCharacter(text);
    StringRef bytes = text.take_front(character.length);
    text = text.drop_front(character.length);
    bool isValid = character.kind == Utf8Character::Kind::Valid;
    bool isControl = character.scalar < 0x20 || (character.scalar >= 0x7F && character.scalar < 0xA0);
    if (isValid && (!isControl || kept.contains(bytes)))
      result += bytes;
    else if (isValid && character.scalar >= 0x80)
      result += formatv("\\u{0:x-4}", static_cast<uint32_t>(character.scalar));
    else
      for (char byte : bytes)
        result += formatv("\\x{0:x-2}", static_cast<uint8_t>(byte));
  }
  return result;
}

void PrintableStream::write_impl(const char *data, size_t size) {
  position += size;
  tail.append(data, size);
  StringRef complete = StringRef(tail).drop_back(incompleteTailLength(tail));
  os << printable(complete);
  tail.erase(0, complete.size());
}

} // namespace kiln
