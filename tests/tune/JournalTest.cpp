#include "tools/tune/Journal.h"

#include "support/File.h"
#include "unit/TestSupport.h"

namespace kiln {
namespace {

std::vector<TuningProblem> makeProblems() {
  const KernelFamily *family = findKernelFamily("layernorm");
  auto trial = [&](int threads) { return Trial{{family, {{"threads", threads}}}, 0, Trial::State::Untried, 0}; };
  return {{"first", 8, {Entry::Decode, 8, 1}, 0, {trial(64), trial(128)}},
          {"second", 8, {Entry::Decode, 8, 1}, 1, {trial(64)}}};
}

TEST(TuningJournal, GoesOnWhereItEnded) {
  TemporaryDirectory directory;
  std::string path = directory.str() + "/journal";
  auto problems = makeProblems();
  {
    TuningJournal journal = unwrap(TuningJournal::open(path, "one", problems));
    EXPECT_EQ(journal.resumed(), 0u);
    problems[0].trials[1].state = Trial::State::Timed;
    problems[0].trials[1].seconds = 2e-6;
    expectSuccess(journal.add(problems[0], problems[0].trials[1]));
    problems[1].trials[0].state = Trial::State::Wrong;
    expectSuccess(journal.add(problems[1], problems[1].trials[0]));
  }
  // Torn in the middle of its last line.
  std::string text = unwrap(readFile(path));
  expectSuccess(writeFile(path, text.substr(0, text.size() - 9)));
  auto again = makeProblems();
  {
    TuningJournal journal = unwrap(TuningJournal::open(path, "one", again));
    EXPECT_EQ(journal.resumed(), 1u);
    EXPECT_EQ(again[0].trials[0].state, Trial::State::Untried);
    EXPECT_EQ(again[0].trials[1].state, Trial::State::Timed);
    EXPECT_DOUBLE_EQ(again[0].trials[1].seconds, 2e-6);
    EXPECT_EQ(again[1].trials[0].state, Trial::State::Untried);
    again[1].trials[0].state = Trial::State::Failed;
    expectSuccess(journal.add(again[1], again[1].trials[0]));
  }
  auto third = makeProblems();
  TuningJournal journal = unwrap(TuningJournal::open(path, "one", third));
  EXPECT_EQ(journal.resumed(), 2u);
  EXPECT_EQ(third[1].trials[0].state, Trial::State::Failed);
  expectSuccess(journal.remove());
  EXPECT_FALSE(llvm::sys::fs::exists(path));
}

TEST(TuningJournal, OfAnotherMeasurementIsBegunAnew) {
  TemporaryDirectory directory;
  std::string path = directory.str() + "/journal";
  auto problems = makeProblems();
  {
    TuningJournal journal = unwrap(TuningJournal::open(path, "one", problems));
    problems[0].trials[0].state = Trial::State::Timed;
    expectSuccess(journal.add(problems[0], problems[0].trials[0]));
  }
  auto others = makeProblems();
  EXPECT_EQ(unwrap(TuningJournal::open(path, "another", others)).resumed(), 0u);
  EXPECT_EQ(others[0].trials[0].state, Trial::State::Untried);
}

} // namespace
} // namespace kiln
