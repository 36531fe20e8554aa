//===- ByteAlphabet.h - GPT-2's printable spelling of bytes -----------------===//
//
// GPT-2's vocabulary files spell every byte as one printable character (Radford et al. 2019, encoder.py of
// the release): the printable ones of Latin-1 stand for themselves, the other 68 bytes are U+0100 and up in
// order. So a space is written U+0120 and a newline U+010A.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The character, in UTF-8, that stands for a byte.
std::string spellByte(uint8_t byte);

/// The bytes that a vocabulary entry stands for. An entry with a character outside the alphabet (an added
/// token such as `<a b>`) stands for its own text.
std::string bytesOfToken(StringRef spelling);

} // namespace kiln
