#include "support/text/Markdown.h"

namespace kiln {

std::string tableCell(StringRef text) {
  std::string cell;
  for (char c : text)
    cell += c == '\n' ? "<br>" : c == '|' ? "\\|" : std::string(1, c);
  return cell;
}

void printTableRow(raw_ostream &os, ArrayRef<std::string> cells) {
  os << '|';
  for (const std::string &cell : cells)
    os << ' ' << tableCell(cell) << " |";
  os << '\n';
}

} // namespace kiln
