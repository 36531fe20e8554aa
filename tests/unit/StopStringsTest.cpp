#include "TestSupport.h"

#include "runtime/generation/StopStrings.h"

namespace kiln {
namespace {

/// Feeds `text` in pieces, cut where `cuts` has a bit, and returns the whole output.
std::string filter(ArrayRef<std::string> strings, StringRef text, unsigned cuts, bool &stopped) {
  StopStrings filter(strings);
  std::string result, piece;
  for (size_t i = 0; i < text.size(); ++i) {
    piece += text[i];
    if (cuts >> i & 1)
      result += filter.push(std::exchange(piece, {}));
  }
  result += filter.push(piece);
  result += filter.finish();
  stopped = filter.isStopped();
  return result;
}

TEST(StopStringsTest, TheResultDoesNotDependOnThePieces) {
  struct Case {
    std::vector<std::string> strings;
    StringRef text, wanted;
    bool stopped;
  };
  const Case cases[] = {
      {{}, "abcabc", "abcabc", false},
      {{"ca"}, "abcabc", "ab", true},
      {{"abcd"}, "abcabc", "abcabc", false},
      {{"abcd", "c"}, "xabcd", "xab", true},
      {{"b", "ab"}, "xxab", "xx", true},
      {{"aab"}, "aaaaab", "aaa", true},
      {{"\n\n", "END"}, "EN\nEND", "EN\n", true},
      {{"abab"}, "abaabab", "aba", true},
  };
  for (const Case &c : cases)
    for (unsigned cuts = 0; cuts < 1u << c.text.size(); ++cuts) {
      bool stopped = false;
      EXPECT_EQ(filter(c.strings, c.text, cuts, stopped), c.wanted) << c.text.str() << ' ' << cuts;
      EXPECT_EQ(stopped, c.stopped);
    }
}

TEST(StopStringsTest, HoldsBackOnlyWhatMayBecomeAStopString) {
  StopStrings filter({"stop", "tour"});
  EXPECT_EQ(filter.push("a st"), "a ");
  EXPECT_EQ(filter.push("o"), "");
  EXPECT_EQ(filter.push("u"), "s"); // now it can only be "tour"
  EXPECT_EQ(filter.push("x"), "toux");
  EXPECT_EQ(filter.push("st"), "");
  EXPECT_EQ(filter.finish(), "st");
}

} // namespace
} // namespace kiln
