#include "tools/tune/StepComparer.h"

#include "runtime/RuntimeTest.h"
#include "runtime/measure/Benchmark.h"
#include "support/File.h"

namespace kiln {
namespace {

/// Steps of @prefill beside those of a plan whose kernels were edited.
class StepComparerTest : public RuntimeTest {
protected:
  std::unique_ptr<Executor> openEdited(StringRef edited) {
    return unwrap(Executor::create(*device, unwrap(readPlan(planDirectory())), {planDirectory(), edited.str()}, weights,
                                   {2, context, {Entry::Prefill}}));
  }

  /// The first step of a function whose kernel's name begins like this.
  static size_t stepOf(const Executor &executor, StringRef kernel) {
    const auto &steps = executor.plan().function(Entry::Prefill).steps;
    auto it =
        llvm::find_if(steps, [&](const PlanStep &step) { return StringRef(step.launch.kernel).starts_with(kernel); });
    EXPECT_NE(it, steps.end());
    return it - steps.begin();
  }

  /// Writes the kernel with `from` made `to` into a directory, which it returns.
  std::string edit(StringRef kernel, StringRef from, StringRef to) {
    std::string text = unwrap(readFile((planDirectory() + "/kernels/" + kernel + ".cu").str()));
    EXPECT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    expectSuccess(writeFiles(directory.str() + "/edited", {{(kernel + ".cu").str(), text}}));
    return directory.str() + "/edited";
  }

  Plan plan = unwrap(readPlan(planDirectory()));
  SampleCall sample{plan, {Entry::Prefill, 2, 5}};
};

TEST_F(StepComparerTest, FindsTheStepThatIsWrong) {
  auto executor = openEdited("");
  size_t gelu = stepOf(*executor, "layernorm_matmul_bias_gelu"), residual = stepOf(*executor, "matmul_bias_residual");
  StepComparer comparer;
  expectSuccess(comparer.remember(*executor, sample.call, {gelu, residual}));
  EXPECT_TRUE(unwrap(comparer.agrees(*executor, sample.call, gelu)));

  std::string kernel = executor->plan().function(Entry::Prefill).steps[gelu].launch.kernel;
  auto other = openEdited(edit(kernel, "gelu_tanh(", "1.01f * gelu_tanh("));
  expectSuccess(other->enqueue(sample.call));
  EXPECT_FALSE(unwrap(comparer.agrees(*other, sample.call, gelu)));
  // It is fed with what the right ones left.
  EXPECT_TRUE(unwrap(comparer.agrees(*other, sample.call, residual)));
}

TEST_F(StepComparerTest, SeesWhatIsNotWritten) {
  auto executor = openEdited("");
  size_t gelu = stepOf(*executor, "layernorm_matmul_bias_gelu");
  StepComparer comparer;
  expectSuccess(comparer.remember(*executor, sample.call, {gelu}));
  std::string kernel = executor->plan().function(Entry::Prefill).steps[gelu].launch.kernel;
  auto other = openEdited(edit(kernel, "    store(act_out", "    if (row != 3)\n      store(act_out"));
  expectSuccess(other->enqueue(sample.call));
  EXPECT_FALSE(unwrap(comparer.agrees(*other, sample.call, gelu)));
}

} // namespace
} // namespace kiln
