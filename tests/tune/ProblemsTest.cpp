#include "tools/tune/Problems.h"

#include "kernels/cost/Problem.h"
#include "support/files/File.h"
#include "tools/tune/TrialPlans.h"
#include "unit/TestSupport.h"

namespace kiln {
namespace {

/// Steps of decode in bf16, whose products run in tensor cores, by a plan for as many sequences as a call has.
class ProblemsOfDecode : public testing::Test {
protected:
  ProblemsOfDecode() {
    command.model = sourcePath("graphs/gpt2-124m.toml");
    pipeline.dtype = "bf16";
    pipeline.decode = "graph";
    pipeline.target = command.target;
    module = unwrap(compileForTuning(command, pipeline, "none", sources));
    problems = findProblems(*module, *unwrap(findTarget(command.target)), calls, /*mostOfBest=*/2, /*mostTrials=*/1000);
  }

  static const Op &opOf(const Module &module, const TuningProblem &problem) {
    return **std::next(module.findFunction(problem.call.entry)->body.ops().begin(),
                       static_cast<ptrdiff_t>(problem.step));
  }

  TuneOptions command;
  PipelineOptions pipeline;
  SourceManager sources;
  std::vector<CallShape> calls = {{Entry::Decode, 8, 512}};
  std::unique_ptr<Module> module;
  std::vector<TuningProblem> problems;
};

TEST_F(ProblemsOfDecode, TrialsAddUpInTheOrderOfTheModelsChoice) {
  size_t products = 0, attentions = 0;
  for (const TuningProblem &problem : problems) {
    const Op &op = opOf(*module, problem);
    const KernelChoice &model = problem.trials[0].choice;
    if (!hasFixedForm(op, *model.family) || problem.trials.size() == 1)
      continue;
    const bool isAttention = model.family->form == KernelForm::SplitKv;
    ++(isAttention ? attentions : products);
    for (const Trial &trial : problem.trials) {
      EXPECT_EQ(trial.choice.family->form, model.family->form) << problem.name << ' ' << trial.configuration();
      if (!isAttention) {
        EXPECT_EQ(orderOfSums(op, trial.choice), orderOfSums(op, model))
            << problem.name << ' ' << trial.configuration();
      }
    }
  }
  EXPECT_GE(products, 5u);
  EXPECT_GE(attentions, 1u);
}

// Else trials would be measured whose entries the compiler ignores.
TEST_F(ProblemsOfDecode, TheCompilerTakesEveryTrial) {
  TemporaryDirectory directory;
  for (double part : {0.3, 0.6, 1.0}) {
    TuningDatabase database;
    database.target = command.target;
    auto trialOf = [&](const TuningProblem &problem) -> const Trial & {
      return problem.trials[static_cast<size_t>(part * static_cast<double>(problem.trials.size() - 1))];
    };
    for (const TuningProblem &problem : problems)
      database.set({problem.name, problem.rows, trialOf(problem).choice});
    auto tuned = unwrap(compileForTuning(command, pipeline, directory.write("measured.toml", database.str()), sources));
    for (const TuningProblem &problem : problems) {
      const Trial &trial = trialOf(problem);
      EXPECT_TRUE(choiceOf(opOf(*tuned, problem)) == trial.choice) << problem.name << ' ' << trial.configuration();
    }
  }
}

/// Prompts in bf16, by a plan for up to 4 of them whose rows have one order of sums, or any.
class ProblemsOfPrompts : public testing::TestWithParam<int64_t> {
protected:
  ProblemsOfPrompts() {
    command.model = sourcePath("graphs/gpt2-124m.toml");
    command.batches = {4};
    pipeline.dtype = "bf16";
    pipeline.decode = "graph";
    pipeline.target = command.target;
    pipeline.batchInvariant = GetParam();
  }

  static KernelChoice chosenFor(const Op &op, const CallShape &call) {
    const Module &module = op.parent()->function()->module();
    DimBinding dims = {{module.batchDim()->name, call.batch}, {module.tokensDim()->name, call.tokens()}};
    return choiceFor(op, valueAt(rowsOf(op), dims), call.tokens());
  }

  TuneOptions command;
  PipelineOptions pipeline;
  SourceManager sources;
};

TEST_P(ProblemsOfPrompts, TheCompilerTakesEveryTrial) {
  auto module = unwrap(compileForTuning(command, pipeline, "none", sources));
  TemporaryDirectory directory;
  // 100 tokens run by kernels for up to 256.
  for (CallShape call : {CallShape{Entry::Prefill, 1, 64}, CallShape{Entry::Prefill, 4, 64},
                         CallShape{Entry::Prefill, 1, 100}, CallShape{Entry::Prefill, 1, 1024}}) {
    auto problems = findProblems(*module, *unwrap(findTarget(command.target)), {call}, /*mostOfBest=*/1.5,
                                 /*mostTrials=*/40);
    EXPECT_GE(problems.size(), 10u);
    for (double part : {0.5, 1.0}) {
      TuningDatabase database;
      database.target = command.target;
      auto trialOf = [&](const TuningProblem &problem) -> const Trial & {
        return problem.trials[static_cast<size_t>(part * static_cast<double>(problem.trials.size() - 1))];
      };
      for (const TuningProblem &problem : problems)
        database.set({.problem = problem.name,
                      .rows = problem.rows,
                      .choice = trialOf(problem).choice,
                      .tokens = problem.tokens});
      std::string path = directory.write("measured.toml", database.str());
      auto tuned = unwrap(compileForTuning(command, pipeline, path, sources));
      for (const TuningProblem &problem : problems) {
        const Op &op =
            **std::next(tuned->findFunction(call.entry)->body.ops().begin(), static_cast<ptrdiff_t>(problem.step));
        EXPECT_TRUE(chosenFor(op, call) == trialOf(problem).choice)
            << call.str() << ": " << problem.name << ' ' << problem.bounds() << ' ' << trialOf(problem).configuration();
      }
    }
  }
}

TEST_P(ProblemsOfPrompts, AProblemIsMeasuredInTheCallThatHasItsRows) {
  auto module = unwrap(compileForTuning(command, pipeline, "none", sources));
  const CallShape one = {Entry::Prefill, 1, 64}, all = {Entry::Prefill, 4, 1024};
  auto problems = findProblems(*module, *unwrap(findTarget(command.target)), {one, all}, /*mostOfBest=*/1.5,
                               /*mostTrials=*/2);
  std::set<std::string> kernels;
  for (const TuningProblem &problem : problems) {
    EXPECT_TRUE(kernels.insert(problem.name + " " + problem.bounds()).second) << problem.name;
    const bool isOfOne = problem.rows == 64 || problem.rows == 1;
    EXPECT_TRUE(problem.call == (isOfOne ? one : all)) << problem.name << ' ' << problem.bounds();
  }
  // Kernels for one token of each of four sequences, which a prompt alone has, too.
  EXPECT_TRUE(llvm::any_of(problems, [](const TuningProblem &problem) { return problem.rows == 4; }));
}

TEST_P(ProblemsOfPrompts, TrialsAreMoreThanTheModelChoosesFrom) {
  auto module = unwrap(compileForTuning(command, pipeline, "none", sources));
  auto problems = findProblems(*module, *unwrap(findTarget(command.target)), {{Entry::Prefill, 1, 1024}},
                               /*mostOfBest=*/2, /*mostTrials=*/1000);
  bool hasNarrow = false;
  for (const TuningProblem &problem : problems)
    for (const Trial &trial : problem.trials)
      if (const Attribute *width = findAttribute(trial.choice.tile, "tile_n"))
        hasNarrow |= trial.choice.family->name == "gemm_wgmma" && width->asInt() % 32 != 0;
  EXPECT_TRUE(hasNarrow);
}

INSTANTIATE_TEST_SUITE_P(Orders, ProblemsOfPrompts, testing::Values(1, 8));

} // namespace
} // namespace kiln
