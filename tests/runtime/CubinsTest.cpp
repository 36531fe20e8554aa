// The kernels of a plan that are compiled when it is loaded, and the results.

#include "runtime/device/cuda/Cubins.h"

#include "unit/TestSupport.h"

namespace kiln {
namespace {

class CubinsTest : public testing::Test {
protected:
  void SetUp() override {
    plan.target = "sm_86";
    plan.cubins = {"sm_86"};
    plan.kernels = {{"first", "map", {}}, {"second", "map", {}}};
    std::map<std::string, std::string> written;
    for (const PlanKernel &kernel : plan.kernels) {
      written["kernels/" + kernel.name + ".cu"] = "extern \"C\" __global__ void " + kernel.name + "() {}\n";
      written["cubin/sm_86/" + kernel.name + ".cubin"] = kernel.name + " as it was compiled";
    }
    expectSuccess(writeFiles(directory.str(), written));
  }

  Expected<std::vector<KernelCode>> read(StringRef target, StringRef edited = "") {
    return readCubins(plan, {directory.str(), edited.str()},
                      {target.str(), "NVIDIA GPU", "", [this](StringRef note) { notes.push_back(note.str()); }});
  }

  /// The codes' bytes. All must be for `target`.
  static std::vector<std::string> bytesFor(StringRef target, ArrayRef<KernelCode> codes) {
    std::vector<std::string> bytes;
    for (const KernelCode &code : codes) {
      EXPECT_EQ(code.target, target);
      bytes.push_back(code.bytes);
    }
    return bytes;
  }

  static bool isElf(StringRef cubin) {
    return cubin.starts_with("\x7f"
                             "ELF");
  }

  TemporaryDirectory directory;
  Plan plan;
  std::vector<std::string> notes;
};

TEST_F(CubinsTest, ThoseOfThePlanAreReadWhereTheyRun) {
  std::vector<std::string> expected = {"first as it was compiled", "second as it was compiled"};
  EXPECT_EQ(bytesFor("sm_86", unwrap(read("sm_86"))), expected);
  EXPECT_EQ(bytesFor("sm_86", unwrap(read("sm_89"))), expected);
  EXPECT_TRUE(notes.empty());
}

TEST_F(CubinsTest, KernelsAreCompiledForAGpuThatThePlanHasNoneFor) {
  for (const std::string &cubin : bytesFor("sm_90a", unwrap(read("sm_90a"))))
    EXPECT_TRUE(isElf(cubin));
  EXPECT_EQ(notes, std::vector<std::string>{"the plan has cubins for sm_86 only: compiling 2 kernels for sm_90a"});
}

TEST_F(CubinsTest, KernelsAreTakenFromTheCacheWithoutANote) {
  TemporaryDirectory cache;
  auto readCached = [&] {
    return readCubins(plan, {directory.str(), ""},
                      {"sm_90a", "NVIDIA GPU", cache.str(), [this](StringRef note) { notes.push_back(note.str()); }});
  };
  std::vector<std::string> first = bytesFor("sm_90a", unwrap(readCached()));
  EXPECT_EQ(notes.size(), 1u);
  EXPECT_EQ(bytesFor("sm_90a", unwrap(readCached())), first);
  EXPECT_EQ(notes.size(), 1u);
  // Only those that it does not have are counted.
  directory.write("kernels/second.cu", "extern \"C\" __global__ void second(float *y) { *y = 2; }\n");
  unwrap(readCached());
  EXPECT_EQ(notes.back(),
            "the plan has cubins for sm_86 only: compiling 1 kernel for sm_90a, to be kept in " + cache.str());
}

TEST_F(CubinsTest, PtxIsTakenWhereNoCubinRuns) {
  plan.ptx = {"compute_80", "compute_100"};
  expectSuccess(writeFiles(
      directory.str(), {{"ptx/compute_80/first.ptx", "PTX of first"}, {"ptx/compute_80/second.ptx", "PTX of second"}}));
  std::vector<std::string> expected = {"PTX of first", "PTX of second"};
  EXPECT_EQ(bytesFor("sm_86", unwrap(read("sm_86"))).front(), "first as it was compiled");
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(bytesFor("compute_80", unwrap(read("sm_90a"))), expected);
  EXPECT_EQ(notes, std::vector<std::string>{"the plan has cubins for sm_86 and PTX for compute_80, compute_100 and "
                                            "later only: the driver compiles PTX for compute_80 for this GPU, sm_90a"});
  EXPECT_EQ(directory.relative(messageOf(read("sm_120"))),
            "ptx/compute_100/first.ptx: error: cannot read: No such file or directory\n");
}

TEST_F(CubinsTest, EditedKernelsArePutBesidePtx) {
  plan.ptx = {"compute_80"};
  expectSuccess(writeFiles(directory.str(), {{"ptx/compute_80/first.ptx", "PTX of first"}}));
  TemporaryDirectory edited;
  edited.write("second.cu", "extern \"C\" __global__ void second(float *y) { *y = 1; }\n");
  std::vector<KernelCode> codes = unwrap(read("sm_90a", edited.str()));
  EXPECT_EQ(codes[0].target, "compute_80");
  EXPECT_EQ(codes[1].target, "sm_90a");
  EXPECT_TRUE(isElf(codes[1].bytes));
}

TEST_F(CubinsTest, TheErrorNamesThePlansTargetsAndTheGpu) {
  plan.ptx = {"compute_100"};
  directory.write("kernels/first.cu", "broken\n");
  std::string message = directory.relative(messageOf(read("sm_90a")));
  EXPECT_TRUE(StringRef(message).contains("the plan was made for sm_86, and a kernel does not compile for sm_90a, the "
                                          "target of this GPU, NVIDIA GPU; compile the model with --target sm_90a"))
      << message;
  EXPECT_EQ(notes, std::vector<std::string>{"the plan has cubins for sm_86 and PTX for compute_100 and later only: "
                                            "compiling 2 kernels for sm_90a"});
}

TEST_F(CubinsTest, KernelsWithTensorMapsRunOnTheTargetOfThePlanAlone) {
  plan.kernels[1].maps.resize(1);
  EXPECT_EQ(unwrap(read("sm_86")).size(), 2u);
  std::string message = directory.relative(messageOf(read("sm_100")));
  EXPECT_TRUE(
      StringRef(message).contains("the plan was made for sm_86, and kernel second runs on no other GPU; compile "
                                  "the model with --target sm_100"))
      << message;
}

TEST_F(CubinsTest, KernelsWithClustersRunOnGpusThatHaveThem) {
  plan.target = "sm_90a", plan.cubins = {}, plan.kernels[1].cluster = 2;
  EXPECT_EQ(unwrap(read("sm_90a")).size(), 2u);
  EXPECT_EQ(unwrap(read("sm_100")).size(), 2u);
  std::string message = directory.relative(messageOf(read("sm_89")));
  EXPECT_TRUE(
      StringRef(message).contains("the plan was made for sm_90a, and the blocks of kernel second form clusters, "
                                  "which sm_89 does not have; compile the model with --target sm_89"))
      << message;
}

TEST_F(CubinsTest, OnlyEditedKernelsAreCompiledAnew) {
  TemporaryDirectory edited;
  edited.write("second.cu", "extern \"C\" __global__ void second(float *y) { *y = 1; }\n");
  std::vector<std::string> cubins = bytesFor("sm_86", unwrap(read("sm_86", edited.str())));
  EXPECT_EQ(cubins[0], "first as it was compiled");
  EXPECT_TRUE(isElf(cubins[1]));
  EXPECT_EQ(notes, std::vector<std::string>{"edited: compiling 1 kernel for sm_86"});
}

TEST_F(CubinsTest, AKernelThatDoesNotCompileIsNamedWithItsLine) {
  directory.write("kernels/second.cu", "extern \"C\" __global__ void second() {\n  missing();\n}\n");
  std::string message = directory.relative(messageOf(read("sm_90a")));
  EXPECT_TRUE(StringRef(message).contains("the plan was made for sm_86, and a kernel does not compile for sm_90a"))
      << message;
  EXPECT_TRUE(StringRef(message).contains("kernels/second.cu(2): error")) << message;
}

TEST_F(CubinsTest, AMissingCubinIsAnErrorOfItsFile) {
  llvm::sys::fs::remove(directory.str() + "/cubin/sm_86/second.cubin");
  EXPECT_EQ(directory.relative(messageOf(read("sm_86"))),
            "cubin/sm_86/second.cubin: error: cannot read: No such file or directory\n");
}

} // namespace
} // namespace kiln
