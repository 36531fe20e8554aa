//===- Printable.h - text of files in a form that is safe for a terminal ---===//
//
// Messages quote names, strings and lines of files that another person may have written. A terminal obeys control
// characters: they move the cursor, change what was printed, or set the clipboard. So messages show them as escapes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The text with every control character, except those in `kept`, as an escape: `\x1b` for ASCII's, `\u009b` for the 32
/// that Unicode adds, `\xff` for a byte that is not UTF-8. All other characters stay, invisible ones too.
std::string printable(StringRef text, StringRef kept = "\n\t");

/// Writes text to another stream with control characters as escapes. It buffers nothing but a character whose bytes
/// come in several writes: that one is held back until it is complete or the stream ends.
class PrintableStream : public raw_ostream {
public:
  /// `os` must outlive the stream.
  explicit PrintableStream(raw_ostream &os) : raw_ostream(/*unbuffered=*/true), os(os) {}
  ~PrintableStream() override { os << printable(tail); }

private:
  void write_impl(const char *data, size_t size) override;
  uint64_t current_pos() const override { return position; }

  raw_ostream &os;
  std::string tail; ///< the beginning of a character
  uint64_t position = 0;
};

} // namespace kiln
