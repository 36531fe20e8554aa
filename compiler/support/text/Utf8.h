//===- Utf8.h - decoding UTF-8 that may be invalid ------------------------===//
//
// Bytes that are not UTF-8 are replaced by U+FFFD, one for each 'maximal subpart' (Unicode 15, section 3.9, U+FFFD
// substitution of maximal subparts). Python's bytes.decode('utf-8', errors='replace') gives the same number.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The first character of a text.
struct Utf8Character {
  enum class Kind {
    Valid,
    Invalid,   ///< `length` bytes that form no character; they count as one U+FFFD
    Incomplete ///< the text ends inside a character that more bytes could complete
  };
  Kind kind;
  char32_t scalar; ///< U+FFFD unless valid
  unsigned length; ///< bytes, 1 to 4
};

/// Decodes the first character of a text that is not empty.
Utf8Character firstCharacter(StringRef text);

inline constexpr StringRef replacementCharacter = "\xEF\xBF\xBD"; ///< U+FFFD

/// The text with every invalid sequence, and an incomplete one at its end, replaced by U+FFFD.
std::string replaceInvalidUtf8(StringRef text);

/// The number of bytes at the end of `text`, 0 to 3, that may be the beginning of a character.
size_t incompleteTailLength(StringRef text);

} // namespace kiln
