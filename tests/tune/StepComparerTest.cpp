#include "tools/tune/StepComparer.h"

#include "runtime/RuntimeTest.h"
#include "runtime/measure/Benchmark.h"
#include "support/files/File.h"

namespace kiln {
namespace {

/// Compares steps of @prefill with those of a plan whose kernels were edited.
class StepComparerTest : public RuntimeTest {
protected:
  std::unique_ptr<Executor> openEdited(StringRef edited) {
    return unwrap(Executor::create(*device, unwrap(readPlan(planDirectory())), {planDirectory(), edited.str()}, weights,
                                   {2, context, {Entry::Prefill}}));
  }

  /// The first step of a function whose kernel's name begins with `kernel`.
  static size_t stepOf(const Executor &executor, StringRef kernel) {
    const auto &steps = executor.plan().function(Entry::Prefill).steps;
    auto it =
        llvm::find_if(steps, [&](const PlanStep &step) { return StringRef(step.launch.kernel).starts_with(kernel); });
    EXPECT_NE(it, steps.end());
    return it - steps.begin();
  }

  /// The kernel of that step.
  static std::string kernelOf(const Executor &executor, StringRef kernel) {
    return executor.plan().function(Entry::Prefill).steps[stepOf(executor, kernel)].launch.kernel;
  }

  /// Writes the kernel with `from` replaced by `to` into a directory, which it returns.
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
  EXPECT_EQ(unwrap(comparer.difference(*executor, sample.call, gelu)), "");

  std::string kernel = kernelOf(*executor, "layernorm_matmul_bias_gelu");
  auto other = openEdited(edit(kernel, "gelu_tanh(", "1.01f * gelu_tanh("));
  expectSuccess(other->enqueue(sample.call));
  EXPECT_NE(unwrap(comparer.difference(*other, sample.call, gelu)), "");
  // Its input is the output of the correct kernels.
  EXPECT_EQ(unwrap(comparer.difference(*other, sample.call, residual)), "");
}

TEST_F(StepComparerTest, SeesWhatIsNotWritten) {
  auto executor = openEdited("");
  size_t gelu = stepOf(*executor, "layernorm_matmul_bias_gelu");
  StepComparer comparer;
  expectSuccess(comparer.remember(*executor, sample.call, {gelu}));
  std::string kernel = kernelOf(*executor, "layernorm_matmul_bias_gelu");
  auto other = openEdited(edit(kernel, "    store(act_out", "    if (row != 3)\n      store(act_out"));
  expectSuccess(other->enqueue(sample.call));
  std::string difference = unwrap(comparer.difference(*other, sample.call, gelu));
  EXPECT_TRUE(StringRef(difference).ends_with(", got nothing written")) << difference;
}

TEST_F(StepComparerTest, TakesNothingButNaNForNaN) {
  std::string kernel = kernelOf(*openEdited(""), "layernorm_matmul_bias_gelu");
  auto broken = openEdited(edit(kernel, "gelu_tanh(", "__builtin_nanf(\"\") * gelu_tanh("));
  size_t gelu = stepOf(*broken, "layernorm_matmul_bias_gelu");
  StepComparer comparer;
  expectSuccess(comparer.remember(*broken, sample.call, {gelu}));
  EXPECT_EQ(unwrap(comparer.difference(*broken, sample.call, gelu)), "");
  auto right = openEdited("");
  expectSuccess(right->enqueue(sample.call));
  std::string difference = unwrap(comparer.difference(*right, sample.call, gelu));
  EXPECT_TRUE(StringRef(difference).contains("element 0: expected nan, got ")) << difference;
}

TEST_F(StepComparerTest, TakesWhatNeitherWritesForTheSame) {
  std::string kernel = kernelOf(*openEdited(""), "layernorm_matmul_bias_gelu");
  auto part = openEdited(edit(kernel, "    store(act_out", "    if (row != 3)\n      store(act_out"));
  size_t gelu = stepOf(*part, "layernorm_matmul_bias_gelu");
  StepComparer comparer;
  expectSuccess(comparer.remember(*part, sample.call, {gelu}));
  EXPECT_EQ(unwrap(comparer.difference(*part, sample.call, gelu)), "");
  auto whole = openEdited("");
  expectSuccess(whole->enqueue(sample.call));
  std::string difference = unwrap(comparer.difference(*whole, sample.call, gelu));
  EXPECT_TRUE(StringRef(difference).contains("expected nothing written, got ")) << difference;
}

} // namespace
} // namespace kiln
