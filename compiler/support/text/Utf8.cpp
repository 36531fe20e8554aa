#include "support/text/Utf8.h"

namespace kiln {

namespace {
/// The length of the character that a lead byte starts, and the range of its second byte. The range is narrower than
/// 80..BF where that would allow an overlong form, a surrogate or a scalar past U+10FFFF.
struct LeadByte {
  unsigned length = 0; ///< 0: not a lead byte
  uint8_t secondMin = 0x80;
  uint8_t secondMax = 0xBF;
};
} // namespace

static LeadByte classifyLead(uint8_t byte) {
  if (byte < 0x80)
    return {1};
  if (byte < 0xC2)
    return {};
  if (byte < 0xE0)
    return {2};
  if (byte < 0xF0)
    return {3, static_cast<uint8_t>(byte == 0xE0 ? 0xA0 : 0x80), static_cast<uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
  if (byte < 0xF5)
    return {4, static_cast<uint8_t>(byte == 0xF0 ? 0x90 : 0x80), static_cast<uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
  return {};
}

Utf8Character firstCharacter(StringRef text) {
  constexpr char32_t replacement = 0xFFFD;
  auto byteAt = [&](unsigned i) { return static_cast<uint8_t>(text[i]); };
  LeadByte lead = classifyLead(byteAt(0));
  if (lead.length == 0)
    return {Utf8Character::Kind::Invalid, replacement, 1};
  if (lead.length == 1)
    return {Utf8Character::Kind::Valid, byteAt(0), 1};
  char32_t scalar = byteAt(0) & (0x7F >> lead.length);
  for (unsigned i = 1; i < lead.length; ++i) {
    if (i == text.size())
      return {Utf8Character::Kind::Incomplete, replacement, i};
    uint8_t min = i == 1 ? lead.secondMin : 0x80;
    uint8_t max = i == 1 ? lead.secondMax : 0xBF;
    if (byteAt(i) < min || byteAt(i) > max)
      return {Utf8Character::Kind::Invalid, replacement, i};
    scalar = scalar << 6 | (byteAt(i) & 0x3F);
  }
  return {Utf8Character::Kind::Valid, scalar, lead.length};
}

std::string replaceInvalidUtf8(StringRef text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    Utf8Character character = firstCharacter(text);
    bool isValid = character.kind == Utf8Character::Kind::Valid;
    result += isValid ? text.take_front(character.length) : replacementCharacter;
    text = text.drop_front(character.length);
  }
  return result;
}

size_t incompleteTailLength(StringRef text) {
  // A character has at most four bytes, so an incomplete one starts at one of the last three.
  for (size_t length = std::min<size_t>(3, text.size()); length > 0; --length) {
    Utf8Character character = firstCharacter(text.take_back(length));
    if (character.kind == Utf8Character::Kind::Incomplete && character.length == length)
      return length;
  }
  return 0;
}

} // namespace kiln
