#include "TestSupport.h"

#include "support/text/Nearest.h"

namespace kiln {
namespace {

TEST(Nearest, TheFirstOfTheNamesThatAreNearest) {
  const std::vector<std::string> names = {"compile", "run", "tune", "--device", "bf16"};
  EXPECT_EQ(didYouMean("comple", names), "; did you mean 'compile'?");
  EXPECT_EQ(didYouMean("rum", names), "; did you mean 'run'?");
  EXPECT_EQ(didYouMean("rune", names), "; did you mean 'run'?");
  EXPECT_EQ(didYouMean("--devise", names), "; did you mean '--device'?");
  EXPECT_EQ(didYouMean("bf15", names), "; did you mean 'bf16'?");
}

TEST(Nearest, NothingThatIsFarAway) {
  const std::vector<std::string> names = {"compile", "run"};
  for (StringRef word : {"", "x", "walk", "decompress"})
    EXPECT_EQ(didYouMean(word, names), "");
  EXPECT_EQ(didYouMean("run", std::vector<StringRef>()), "");
}

} // namespace
} // namespace kiln
