#include "runtime/text/ByteAlphabet.h"

#include "support/text/Utf8.h"

#include <array>

namespace kiln {

static constexpr bool standsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

static constexpr std::array<char16_t, 256> spellings = [] {
  std::array<char16_t, 256> table{};
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    table[byte] = standsForItself(byte) ? static_cast<char16_t>(byte) : next++;
  return table;
}();

static constexpr int spellingsEnd = 0x100 + 68;

/// The byte that a character represents; -1 if none.
static constexpr std::array<int16_t, spellingsEnd> bytes = [] {
  std::array<int16_t, spellingsEnd> table{};
  table.fill(-1);
  for (int byte = 0; byte < 256; ++byte)
    table[spellings[byte]] = static_cast<int16_t>(byte);
  return table;
}();

std::string spellByte(uint8_t byte) {
  char16_t c = spellings[byte];
  if (c < 0x80)
    return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

std::string bytesOfToken(StringRef spelling) {
  std::string result;
  for (StringRef rest = spelling; !rest.empty();) {
    Utf8Character character = firstCharacter(rest);
    if (character.kind != Utf8Character::Kind::Valid || character.scalar >= spellingsEnd || bytes[character.scalar] < 0)
      return spelling.str();
    result += static_cast<char>(bytes[character.scalar]);
    rest = rest.drop_front(character.length);
  }
  return result;
}

} // namespace kiln
