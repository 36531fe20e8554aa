#include "TestSupport.h"

#include "support/text/Config.h"

namespace kiln {
namespace {

class TomlTest : public testing::Test {
protected:
  Expected<ConfigValue> parse(StringRef text) { return parseToml(sources.add("a.toml", text.str())); }
  std::string verdict(StringRef text) { return messageOf(parse(text)); }

  /// `unit`, repeated.
  static std::string times(int count, StringRef unit) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += unit;
    return text;
  }

  SourceManager sources;
};

TEST_F(TomlTest, DeepNestingIsAnErrorAndNoCrash) {
  const char *what = "error: expected at most 64 nested TOML tables and arrays\n";
  EXPECT_EQ(verdict("b = 1\n" + times(26249, "a.") + "a = 1\n"), std::string("a.toml:2:128: ") + what);
  EXPECT_EQ(verdict(times(26249, "a . ") + "a = 1\n"), std::string("a.toml:1:255: ") + what);
  EXPECT_EQ(verdict("[" + times(100000, "a.") + "a]\n"), std::string("a.toml:1:127: ") + what);
  EXPECT_EQ(verdict("[[" + times(100000, "\"a\".") + "a]]\n"), std::string("a.toml:1:250: ") + what);
  EXPECT_EQ(verdict("a = " + times(100000, "[")), std::string("a.toml:1:68: ") + what);
  EXPECT_EQ(verdict("a = " + times(100000, "{a = ")), std::string("a.toml:1:320: ") + what);
  // Levels of all kinds add up.
  EXPECT_EQ(verdict("a = " + times(100, "{a.a.a.a = [")), std::string("a.toml:1:155: ") + what);
}

TEST_F(TomlTest, NestingUpToTheLimitIsRead) {
  unwrap(parse(times(63, "a.") + "a = 1\n" + times(63, "b.") + "b = 1\n"));
  unwrap(parse("a = " + times(63, "[") + times(63, "]")));
  unwrap(parse("[" + times(62, "a.") + "a]\n" + times(63, "b.") + "b = 1\n"));
  unwrap(parse("a = [" + times(1000, "1.5, [], {b.c = 1}, ") + "]"));
  unwrap(parse(times(1000, "[[a]]\nb.c.d = 1.5\n")));
}

TEST_F(TomlTest, WhatStandsInStringsAndCommentsIsNoNesting) {
  const std::string deep = times(100, "[{.");
  for (const std::string &text :
       {"# " + deep + "\na = 1", "a = \"" + deep + "\"", "a = '" + deep + "'", "a = \"\\\"" + deep + "\"",
        "a = '\\' # '" + deep, "a = \"\"\"\n" + deep + "\"\" " + deep + "\\\"\"\"\"",
        "a = '''\n" + deep + "'' " + deep + "'''", "a = [\"\"\"a\"\"\"\"\", \"" + deep + "\"]",
        "a = ['''a'''', '" + deep + "']", "a = \"#\" # " + deep})
    EXPECT_EQ(verdict(text), "") << text;
  // After strings and comments, it counts.
  for (StringRef text :
       {"a = \"\"\"a\"\"\"\"\nb = ", "a = '''a'''''\nb = ", "a = \"\\\\\"\nb = ", "a = '\\'\nb = ", "# '\nb = "})
    EXPECT_NE(verdict((text + deep).str()).find("nested TOML tables"), std::string::npos) << text.str();
}

} // namespace
} // namespace kiln
