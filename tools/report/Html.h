//===- Html.h - writing HTML and SVG ----------------------------------------===//
//
// Elements are opened and closed by scopes and text goes through one door, so that a page is well-formed and nothing
// that comes from outside is taken for markup.
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

  /// What may be anything, even no UTF-8.
  Html &text(const Twine &text);

  /// A kernel's name, which may be broken where its parts begin.
  Html &kernelName(StringRef name);

  /// Between elements that a reader of the source wants on lines of their own.
  Html &line() { return out += '\n', *this; }

  std::string take() { return std::move(out); }

private:
  void open(StringRef tag, const Attributes &attributes);

  std::string out;
};

/// With &, <, >, " and ' as character references; what no HTML may hold (control characters, bytes that are no UTF-8)
/// becomes U+FFFD.
std::string escapeHtml(StringRef text);

/// The head of a table.
void writeHead(Html &html, ArrayRef<StringRef> names);

// Parts of an SVG picture, of a class that the style sheet knows.
void drawLine(Html &html, StringRef name, double x1, double y1, double x2, double y2);
void drawText(Html &html, StringRef name, double x, double y, const Twine &text);

/// A coordinate: at most two decimals, 12 or 12.5.
std::string coordinate(double value);

} // namespace kiln
