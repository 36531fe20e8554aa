#include "tools/ladder/Rungs.h"
#include "tools/ladder/RungResult.h"

#include "driver/Compile.h"
#include "strategies/Strategy.h"

#include <gtest/gtest.h>

namespace kiln {

// GoogleTest would print the bytes of a part.
static void PrintTo(const LadderPart &part, std::ostream *os) { *os << part.name.str(); }

namespace {

class LadderPartTest : public testing::TestWithParam<LadderPart> {};

/// One layer of GPT-2 124M is enough, since all are alike.
Expected<std::unique_ptr<Module>> compileRung(const LadderPart &part, const Rung &rung, SourceManager &sources) {
  CompileOptions options;
  if (Error error = applyStrategies(part.strategyOf(rung), options.pipeline))
    return error;
  options.build = {part.batch, 1, part.positions};
  return compileToStage(KILN_SOURCE_DIR "/graphs/gpt2-124m.toml", Stage::Plan, options, sources);
}

TEST_P(LadderPartTest, RungsCompileAndHaveStepsToTime) {
  const LadderPart &part = GetParam();
  std::set<std::pair<std::string, BatchDevices>> strategies;
  for (const Rung &rung : part.rungs) {
    SCOPED_TRACE(part.strategyOf(rung));
    EXPECT_TRUE(strategies.insert({part.strategyOf(rung), rung.devices}).second) << "two rungs are the same";
    SourceManager sources;
    auto module = compileRung(part, rung, sources);
    ASSERT_TRUE(bool(module)) << llvm::toString(module.takeError());
    const Block &steps = (*module)->findFunction("prefill")->body;
    auto timed = llvm::count_if(steps.ops(), [&](const auto &op) { return part.takes && part.takes(*op); });
    EXPECT_EQ(timed > 0, part.timed == Timed::Steps);
  }
}

/// All rungs compute the same numbers, except those that declare another model.
TEST_P(LadderPartTest, OnlyOtherModelsHaveAWindow) {
  for (const Rung &rung : GetParam().rungs)
    EXPECT_EQ(rung.isOtherModel, rung.strategy.contains("windowed")) << rung.name.str();
}

INSTANTIATE_TEST_SUITE_P(Parts, LadderPartTest, testing::ValuesIn(allLadderParts()), [](const auto &part) {
  std::string name = part.param.name.str();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Ladder, UnknownPartsAreRefused) {
  Expected<const LadderPart *> part = findLadderPart("staircase");
  ASSERT_FALSE(bool(part));
  std::string message = llvm::toString(part.takeError());
  EXPECT_NE(message.find("--parts: expected matmul, matmul-large, "), std::string::npos) << message;
  EXPECT_NE(message.find("got 'staircase'"), std::string::npos) << message;
}

TEST(Ladder, PromptsFitTheModel) {
  const LadderPart &large = **findLadderPart("matmul-large");
  EXPECT_EQ(fitted(large, 16).length, 16);
  EXPECT_EQ(fitted(large, 4096).length, 1024);
  EXPECT_EQ(fitted(**findLadderPart("attention-4096"), 1024).length, 4096) << "it has positions of its own";
}

RungResult timed(double seconds) {
  RungResult result;
  result.seconds = {seconds};
  result.error.allowed = 1;
  return result;
}

TEST(Ladder, NotesSayWhatIsSlowerAndWhatIsWrong) {
  LadderPart part;
  part.name = "stairs";
  part.rungs = {{"first", ""}, {"second", ""}, {"third", ""}, {"fourth", ""}, {"fifth", ""}};
  LadderReasons reasons{"a GPU",
                        {{{"stairs"}, {"first", "second"}, "a reason"}, {{"others"}, {"third"}, "not of this part"}}};
  MeasuredPart measured{&part, &reasons, {timed(2), timed(3), timed(4), timed(1), timed(1)}};
  measured.results[3].error.largest = NAN;
  measured.results[4].failure = "no such kernel";
  EXPECT_EQ(measured.note(0), "");
  EXPECT_EQ(measured.note(1), "slower than the rung below: a reason");
  EXPECT_EQ(measured.note(2), "slower than the rung below: not known why");
  EXPECT_EQ(measured.note(3), "wrong: logits are off by nan, allowed is 1.0E+00");
  EXPECT_EQ(measured.note(4), "failed: no such kernel");
  EXPECT_TRUE(measured.results[3].isWrong());
  EXPECT_FALSE(measured.results[2].isWrong());
  measured.reasons = nullptr;
  EXPECT_EQ(measured.note(1), "slower than the rung below: not known why");
}

TEST(Ladder, ReasonsAreOfOneDeviceOnly) {
  const LadderReasons *reasons = findLadderReasons("NVIDIA H200");
  ASSERT_TRUE(reasons);
  EXPECT_EQ(reasons->why("triangular", "cuBLASLt, the whole square, not scaled or masked"),
            "the library computes the whole square, which is twice the work");
  EXPECT_EQ(reasons->why("attention", "cuBLASLt, the whole square, not scaled or masked"), "");
  EXPECT_EQ(findLadderReasons("NVIDIA A100 80GB"), nullptr);
  EXPECT_EQ(findLadderReasons("emulated device"), nullptr);
}

/// A renamed rung would lose its reason.
TEST(Ladder, ReasonsAreOfRungsThatThereAre) {
  for (const LadderReasons &own : allLadderReasons())
    for (const LadderReasons::Reason &reason : own.reasons)
      for (const std::string &name : reason.parts) {
        auto part = findLadderPart(name);
        ASSERT_TRUE(bool(part)) << llvm::toString(part.takeError());
        for (const std::string &rung : reason.rungs) {
          auto at = llvm::find_if((*part)->rungs, [&](const Rung &known) { return known.name == rung; });
          EXPECT_TRUE(at != (*part)->rungs.end() && at != (*part)->rungs.begin()) << name << ": " << rung;
        }
      }
}

} // namespace
} // namespace kiln
