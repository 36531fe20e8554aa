//===- PreTokenizer.h - cutting text into the pieces that BPE works on ------===//
//
// Equivalent to GPT-2's pattern, matched over and over from the left:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// with the classes of Python's `regex` module: \s is the property White_Space (so not U+001C..U+001F, nor
// U+180E), letters and numbers are the general categories L* and N*. Contractions are case-sensitive.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

enum class CharacterClass : uint8_t { Letter, Number, Space, Other };

/// The class of a Unicode scalar value.
CharacterClass classify(char32_t scalar);

/// The first piece of a text that is valid UTF-8 and not empty. Pieces are never empty, and together they are the text.
StringRef firstPreToken(StringRef text);

} // namespace kiln
