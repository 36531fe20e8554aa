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

} // namespace
} // namespace kiln
