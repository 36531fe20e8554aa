// Kernels run, with checks, when compiled by any of the machine's compilers.

#include "emulated/Fixture.h"

#include "runtime/device/emulated/memory/Sanitizer.h"

namespace kiln {
namespace {

class HostCompilers : public EmulatedTest, public testing::WithParamInterface<const char *> {
protected:
  void SetUp() override {
    if (!llvm::sys::findProgramByName(GetParam()))
      GTEST_SKIP() << "skipped: no " << GetParam();
    if (hasAddressSanitizer)
      GTEST_SKIP() << "skipped: kernels need the sanitizers of the compiler that this program was built with";
  }

  std::unique_ptr<KernelLibrary> compile(bool checkAccesses) {
    auto compiler = cantFail(HostKernelCompiler::create({KILN_TEMPLATES, KILN_TEST_CACHE, GetParam(), checkAccesses}));
    return cantFail(compiler.compile("broken.cu", kernelText("broken"), {"only_atomics", "atomic_and_read"}));
  }

  std::string run(const KernelLibrary &library, StringRef kernel, std::vector<float> &results) {
    auto out = bufferOf(results);
    std::string error = printed(launch(library.kernel(kernel), {1}, 64, {}, out));
    results = out.copy();
    return error;
  }
};

TEST_P(HostCompilers, RunKernels) {
  for (bool checkAccesses : {false, true}) {
    std::vector<float> results(64);
    EXPECT_EQ(run(*compile(checkAccesses), "only_atomics", results), "");
    EXPECT_EQ(results, std::vector<float>(64, 64 + 63 * 32 + 32));
  }
}

TEST_P(HostCompilers, ShowTheLinesOfAccesses) {
  std::vector<float> results(64);
  EXPECT_EQ(run(*compile(/*checkAccesses=*/true), "atomic_and_read", results),
            placeIn("broken", "atomic_and_read plain") +
                "error: kernel atomic_and_read: block (0,0,0): thread 40 reads shared memory that thread 1 has "
                "atomically changed since the last barrier\n" +
                placeIn("broken", "atomic_and_read atomic") + "note: the other access is here\n");
}

INSTANTIATE_TEST_SUITE_P(OfTheMachine, HostCompilers, testing::Values("g++", "clang++", "clang++-19"),
                         [](const testing::TestParamInfo<const char *> &info) {
                           std::string name = info.param;
                           for (char &c : name)
                             c = llvm::isAlnum(c) ? c : '_';
                           return name;
                         });

} // namespace
} // namespace kiln
