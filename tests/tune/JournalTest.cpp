#include "tools/tune/Journal.h"
#include "tools/tune/Page.h"
#include "tools/tune/Report.h"

#include "support/files/File.h"
#include "unit/TestSupport.h"

namespace kiln {
namespace {

std::vector<TuningProblem> makeProblems() {
  const KernelFamily *family = findKernelFamily("layernorm");
  auto trial = [&](int threads) { return Trial{{family, {{"threads", threads}}}, 0, Trial::State::Untried, 0, ""}; };
  return {{"first", 8, 0, {Entry::Decode, 8, 1}, 0, {trial(64), trial(128)}},
          {"second", 8, 0, {Entry::Decode, 8, 1}, 1, {trial(64)}}};
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
    problems[1].trials[0].reject(Trial::State::Wrong, "element 1: expected 2, got 3");
    expectSuccess(journal.add(problems[1], problems[1].trials[0]));
  }
  // The last line is torn in the middle.
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
    again[1].trials[0].reject(Trial::State::Failed, "a.cu:1: error: \"no\"\n\xff");
    expectSuccess(journal.add(again[1], again[1].trials[0]));
  }
  auto third = makeProblems();
  TuningJournal journal = unwrap(TuningJournal::open(path, "one", third));
  EXPECT_EQ(journal.resumed(), 2u);
  EXPECT_EQ(third[1].trials[0].state, Trial::State::Failed);
  EXPECT_EQ(third[1].trials[0].reason, "a.cu:1: error: \"no\"\n\xef\xbf\xbd");
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

/// The number of trials that are taken from a line, which goes on so behind the first trial's name.
size_t resumedFrom(StringRef rest) {
  TemporaryDirectory directory;
  std::string text =
      R"(one
{"problem": "first", "rows": 8, "tokens": 0, "kernel": "layernorm", "tile": "{threads = 64}", )" +
      rest.str() + "}\n";
  auto problems = makeProblems();
  size_t resumed = unwrap(TuningJournal::open(directory.write("journal", text), "one", problems)).resumed();
  EXPECT_EQ(problems[0].trials[0].state == Trial::State::Untried, resumed == 0);
  return resumed;
}

TEST(TuningJournal, PassesOverWhatNoTrialComesTo) {
  const std::string call = "\"call\": \"" + makeProblems()[0].call.str() + "\", ";
  EXPECT_EQ(resumedFrom(call + R"("state": "started")"), 0u);
  EXPECT_EQ(resumedFrom(call + R"("state": "timed", "seconds": 0)"), 0u);
  EXPECT_EQ(resumedFrom(call + R"("state": "timed")"), 0u);
  EXPECT_EQ(resumedFrom(call + R"("state": "timed", "seconds": 1e-6)"), 1u);
}

/// Prompts of 200 and of 256 tokens have kernels of one bound.
TEST(TuningJournal, TimesAreOfOneCall) {
  EXPECT_EQ(resumedFrom(R"("call": "prefill B=1 T=8", "state": "timed", "seconds": 1e-6)"), 0u);
  EXPECT_EQ(resumedFrom(R"("state": "timed", "seconds": 1e-6)"), 0u);
}

/// Readers of a report must see why a trial was dropped.
TEST(TuningReport, SaysWhyTrialsWereDropped) {
  auto problems = makeProblems();
  for (TuningProblem &problem : problems) {
    problem.trials[0].state = Trial::State::Timed;
    problem.trials[0].seconds = 1e-6;
  }
  std::string text;
  raw_string_ostream os(text);
  printTuningReport(os, {}, problems);
  EXPECT_EQ(StringRef(text).find("dropped"), StringRef::npos);
  problems[0].trials[1].reject(Trial::State::Failed, "a.cu:1: error: a | b\nin <c>");
  text.clear();
  printTuningReport(os, {}, problems);
  EXPECT_NE(text.find("| first | 8 | layernorm {threads = 128} | failed | a.cu:1: error: a \\| b<br>in <c> |\n"),
            std::string::npos)
      << text;
  std::string page = tuningPage("title", {}, problems);
  EXPECT_NE(page.find("<dt>layernorm {threads = 128}, failed</dt><dd><pre>a.cu:1: error: a | b\nin &lt;c&gt;</pre>"),
            std::string::npos)
      << page;
}

} // namespace
} // namespace kiln
