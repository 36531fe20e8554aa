// The form in which a terminal gets text written by others.
#include "TestSupport.h"

#include "support/text/Printable.h"

namespace kiln {
namespace {

TEST(Printable, ControlCharactersAreShown) {
  EXPECT_EQ(printable("plain, ä, \U0001f642\n\tx"), "plain, ä, \U0001f642\n\tx");
  EXPECT_EQ(printable("\x1b[31mred\r\a\x7f"), "\\x1b[31mred\\x0d\\x07\\x7f");
  EXPECT_EQ(printable(StringRef("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u009b2J\u00a0"), "\\u009b2J\u00a0");
  EXPECT_EQ(printable("\x9b\xff\xc3"), "\\x9b\\xff\\xc3");
  EXPECT_EQ(printable("a\n\tb", ""), "a\\x0a\\x09b");
}

TEST(Printable, AStreamWaitsForTheRestOfACharacter) {
  std::string text;
  raw_string_ostream os(text);
  {
    PrintableStream stream(os);
    stream << "\xe2\x82";
    EXPECT_EQ(text, "");
    stream << "\xac\x1b" << 'x' << '\xc2';
    EXPECT_EQ(text, "€\\x1bx");
  }
  EXPECT_EQ(text, "€\\x1bx\\xc2");
}

std::string printed(const Diagnostic &diagnostic) {
  std::string text;
  raw_string_ostream os(text);
  diagnostic.print(os);
  return text;
}

TEST(Printable, DiagnosticsShowWhatTheyQuote) {
  SourceManager sources;
  const SourceFile *file = sources.add("a\n\x1b.toml", "x = \"\x1b[2J\" y\n\tä\u009b = 1\n");
  EXPECT_EQ(printed({Diagnostic::Severity::Error, {file, 1, 12}, "got '\x1b[2J'\nsecond line"}),
            "a\\x0a\\x1b.toml:1:12: error: got '\\x1b[2J'\nsecond line\n"
            "x = \"\\x1b[2J\" y\n"
            "              ^\n");
  EXPECT_EQ(printed({Diagnostic::Severity::Note, {file, 2, 7}, "here"}), "a\\x0a\\x1b.toml:2:7: note: here\n"
                                                                         "\tä\\u009b = 1\n"
                                                                         "\t        ^\n");
}

TEST(Printable, LongLinesAreCutBetweenCharacters) {
  SourceManager sources;
  std::string line;
  for (int i = 0; i < 300; ++i)
    line += "ä";
  const SourceFile *file = sources.add("a", line);
  for (unsigned column : {1, 2, 100, 301, 302, 600, 601}) {
    std::string text = printed({Diagnostic::Severity::Error, {file, 1, column}, "x"});
    EXPECT_EQ(text.find('\\'), std::string::npos) << text;
    EXPECT_NE(text.find("ä"), std::string::npos) << text;
  }
}

} // namespace
} // namespace kiln
