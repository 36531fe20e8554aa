// Tables of Markdown, whatever their cells say.
#include "TestSupport.h"

#include "support/text/Markdown.h"

namespace kiln {
namespace {

TEST(Markdown, ARowHasAsManyCellsAsItIsGiven) {
  std::string text;
  raw_string_ostream os(text);
  printTableRow(os, {"`softsign`", "", "x / (1 + |x|).", "two\nlines"});
  EXPECT_EQ(text, "| `softsign` |  | x / (1 + \\|x\\|). | two<br>lines |\n");
}

} // namespace
} // namespace kiln
