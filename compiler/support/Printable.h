//===- Printable.h - text of files, as a terminal may show it -----------------===//
//
// Names, strings and lines that a message quotes come from files that somebody else may have written. A terminal obeys
// control characters: they move the cursor, change what was printed, or set the clipboard. So they are shown, not sent.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// The text with every control character but those in `kept` as an escape: `\x1b` of ASCII's, `\u009b` of the 32 that
/// Unicode adds, `\xff` of a byte that is no UTF-8. All else, invisible characters too, stays as it is.
std::string printable(StringRef text, StringRef kept = "\n\t");

/// Hands on what is written to it as `printable` shows it. Writes nothing of its own later: a character whose bytes
/// come in several writes is held back until it is complete, or the stream ends.
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
