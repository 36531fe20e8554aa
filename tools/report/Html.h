//===- Html.h - writing HTML and SVG ----------------------------------------===//
//
// Scopes open and close elements, and one function escapes all text, so that a page is well-formed and no text from
// outside becomes markup.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

class Html {
public:
  /// Attributes in order. An empty value is an attribute without one: `open`.
  using Attributes = std::vector<std::pair<StringRef, std::string>>;

  /// An element that is open until the scope ends.
  class Scope {
  public:
    Scope(Html &html, StringRef tag) : html(html), tag(tag) {}
    Scope(const Scope &) = delete;
    ~Scope() { html.out += ("</" + tag + ">").str(); }

  private:
    Html &html;
    StringRef tag;
  };

  /// Opens an element. `tag` and names of attributes are literals of this program.
  [[nodiscard]] Scope in(StringRef tag, const Attributes &attributes = {}) {
    open(tag, attributes);
    return {*this, tag};
  }

  /// An element that holds text, or nothing.
  Html &element(StringRef tag, const Attributes &attributes = {}, const Twine &text = "");

  /// Text of any content, even invalid UTF-8.
  Html &text(const Twine &text);

  /// A kernel's name, with possible line breaks between its parts.
  Html &kernelName(StringRef name);

  /// A line break between elements, for readers of the source.
  Html &line() { return out += '\n', *this; }

  std::string take() { return std::move(out); }

private:
  void open(StringRef tag, const Attributes &attributes);

  std::string out;
};

/// Replaces &, <, >, " and ' by character references, and anything that HTML may not contain (control characters,
/// invalid UTF-8) by U+FFFD.
std::string escapeHtml(StringRef text);

/// The head of a table.
void writeHead(Html &html, ArrayRef<StringRef> names);

// Parts of an SVG picture, with a class of the style sheet.
void drawLine(Html &html, StringRef name, double x1, double y1, double x2, double y2);
void drawText(Html &html, StringRef name, double x, double y, const Twine &text);

/// A coordinate: at most two decimals, 12 or 12.5.
std::string coordinate(double value);

} // namespace kiln
