#include "tools/report/Html.h"

#include "support/text/Number.h"

#include <cmath>

namespace kiln {

std::string escapeHtml(StringRef text) {
  std::string escaped;
  for (char c : json::isUTF8(text) ? text.str() : json::fixUTF8(text))
    switch (c) {
    case '&':
      escaped += "&amp;";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    case '\'':
      escaped += "&#39;";
      break;
    default: {
      bool isControl = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
      escaped += isControl ? "\xEF\xBF\xBD" : std::string(1, c);
    }
    }
  return escaped;
}

void writeHead(Html &html, ArrayRef<StringRef> names) {
  auto head = html.in("thead");
  auto row = html.in("tr");
  for (StringRef name : names)
    html.element("th", {{"scope", "col"}}, name);
}

void drawLine(Html &html, StringRef name, double x1, double y1, double x2, double y2) {
  html.element("line", {{"class", name.str()},
                        {"x1", coordinate(x1)},
                        {"y1", coordinate(y1)},
                        {"x2", coordinate(x2)},
                        {"y2", coordinate(y2)}});
}

void drawText(Html &html, StringRef name, double x, double y, const Twine &text) {
  html.element("text", {{"class", name.str()}, {"x", coordinate(x)}, {"y", coordinate(y)}}, text);
}

std::string coordinate(double value) { return numberText(std::round(value * 100) / 100); }

void Html::open(StringRef tag, const Attributes &attributes) {
  out += ("<" + tag).str();
  for (const auto &[name, value] : attributes)
    out += value.empty() ? (" " + name).str() : (" " + name + "=\"" + escapeHtml(value) + "\"").str();
  out += '>';
}

Html &Html::element(StringRef tag, const Attributes &attributes, const Twine &text) {
  auto scope = in(tag, attributes);
  return this->text(text);
}

Html &Html::kernelName(StringRef name) {
  while (true) {
    size_t end = name.find("__");
    if (end == StringRef::npos)
      return text(name);
    text(name.take_front(end + 2));
    out += "<wbr>";
    name = name.drop_front(end + 2);
  }
}

Html &Html::text(const Twine &text) {
  out += escapeHtml(text.str());
  return *this;
}

} // namespace kiln
