// The emulated device apart from its launches: the files that it keeps, and its progress while compiling.

#include "emulated/Fixture.h"

#include "runtime/device/emulated/EmulatedDevice.h"
#include "support/files/File.h"

namespace kiln {
namespace {

namespace fs = llvm::sys::fs;

class EmulatedDeviceTest : public testing::Test {
protected:
  void SetUp() override { ASSERT_FALSE(fs::createUniqueDirectory("kiln-emulated-device", directory)); }
  void TearDown() override { fs::remove_directories(directory); }

  EmulatedDevice::Options options() const {
    EmulatedDevice::Options options;
    options.cacheDirectory = (directory + "/cache").str();
    return options;
  }

  SmallString<128> directory;
};

TEST_F(EmulatedDeviceTest, TellsOfEveryKernelThatItCompiles) {
  Plan plan;
  const std::string start = "#include \"device/base.cuh\"\nextern \"C\" __global__ void ";
  for (std::string name : {"first", "second"}) {
    plan.kernels.emplace_back().name = name;
    ASSERT_FALSE(fs::create_directories(directory + "/kernels"));
    cantFail(writeFile((directory + "/kernels/" + name + ".cu").str(), start + name + "(float *out) { *out = 1; }\n"));
  }
  std::vector<std::string> told;
  EmulatedDevice::Options telling = options();
  telling.progress = [&](size_t done, size_t all, StringRef kernel) {
    EXPECT_EQ(done, told.size() + 1);
    told.push_back(formatv("{0} of {1}", kernel, all));
  };
  using Names = std::vector<std::string>;

  // When they are loaded, if that is wanted.
  telling.compilesAhead = true;
  auto load = [&] {
    told.clear();
    auto device = cantFail(EmulatedDevice::create(telling));
    EXPECT_EQ(cantFail(device->loadKernels(plan, {directory.str().str(), ""})).size(), 2u);
    llvm::sort(told);
    return told;
  };
  EXPECT_EQ(load(), Names({"first of 2", "second of 2"}));
  EXPECT_EQ(load(), Names());
  cantFail(writeFile((directory + "/kernels/second.cu").str(), start + "second(float *out) { *out = 2; }\n"));
  EXPECT_EQ(load(), Names({"second of 1"}));

  // Otherwise when one is launched: the other is not compiled.
  telling.compilesAhead = false;
  for (std::string name : {"first", "second"})
    cantFail(writeFile((directory + "/kernels/" + name + ".cu").str(), start + name + "(float *out) { *out = 3; }\n"));
  told.clear();
  auto device = cantFail(EmulatedDevice::create(telling));
  auto kernels = cantFail(device->loadKernels(plan, {directory.str().str(), ""}));
  EXPECT_EQ(told, Names());
  PlanLaunch planned;
  planned.kernel = "second";
  planned.arguments = {"%out"};
  PlanStep step;
  auto *out = static_cast<float *>(cantFail(device->allocate(sizeof(float), "out")));
  KernelLaunch launch;
  launch.kernel = kernels[1].get();
  launch.step = &step;
  launch.planned = &planned;
  launch.startsAfterAll = true;
  launch.arguments = {reinterpret_cast<uint64_t>(out)};
  launch.parameters = {0};
  launch.tensors = {{"%out", reinterpret_cast<char *>(out), sizeof(float), /*isWritten=*/true}};
  auto graph = cantFail(device->makeGraph({launch}));
  EXPECT_EQ(told, Names({"second of 1"}));
  cantFail(device->run(*graph));
  EXPECT_EQ(*out, 3);
  cantFail(device->launch(launch));
  EXPECT_EQ(told, Names({"second of 1"}));
  // Then its arguments are checked, too.
  planned.arguments = {"%out", "%out"};
  EXPECT_EQ(takeDiagnostics(device->makeGraph({launch}).takeError()).front().message,
            "kernel second: expected 1 arguments in the plan, got 2");
}

TEST_F(EmulatedDeviceTest, WritesDamagedTemplatesAgain) {
  cantFail(EmulatedDevice::create(options()));
  std::vector<std::string> files;
  std::error_code failure;
  for (fs::recursive_directory_iterator file(directory, failure), end; file != end && !failure; file.increment(failure))
    if (StringRef(file->path()).ends_with("device/base.cuh") || StringRef(file->path()).ends_with("device/warp.cuh"))
      files.push_back(file->path());
  ASSERT_EQ(files.size(), 2u);
  std::string base = cantFail(readFile(files[0])), warp = cantFail(readFile(files[1]));
  cantFail(writeFile(files[0], StringRef(base).drop_back(100)));
  ASSERT_FALSE(fs::remove(files[1]));
  cantFail(EmulatedDevice::create(options()));
  EXPECT_EQ(cantFail(readFile(files[0])), base);
  EXPECT_EQ(cantFail(readFile(files[1])), warp);
}

} // namespace
} // namespace kiln
