// The emulated device beside its launches: the files it keeps, and what it tells of its compiling.

#include "emulated/Fixture.h"

#include "runtime/device/emulated/EmulatedDevice.h"
#include "support/File.h"

namespace kiln {
namespace {

namespace fs = llvm::sys::fs;

class EmulatedDeviceTest : public testing::Test {
protected:
  void SetUp() override { ASSERT_FALSE(fs::createUniqueDirectory("kiln-emulated-device", directory)); }
  void TearDown() override { fs::remove_directories(directory); }

  SmallString<128> directory;
};

TEST_F(EmulatedDeviceTest, WritesDamagedTemplatesAgain) {
  EmulatedDevice::Options options;
  options.cacheDirectory = directory.str().str();
  cantFail(EmulatedDevice::create(options));
  std::vector<std::string> files;
  std::error_code failure;
  for (fs::recursive_directory_iterator file(directory, failure), end; file != end && !failure; file.increment(failure))
    if (StringRef(file->path()).ends_with("device/base.cuh") || StringRef(file->path()).ends_with("device/warp.cuh"))
      files.push_back(file->path());
  ASSERT_EQ(files.size(), 2u);
  std::string base = cantFail(readFile(files[0])), warp = cantFail(readFile(files[1]));
  cantFail(writeFile(files[0], StringRef(base).drop_back(100)));
  ASSERT_FALSE(fs::remove(files[1]));
  cantFail(EmulatedDevice::create(options));
  EXPECT_EQ(cantFail(readFile(files[0])), base);
  EXPECT_EQ(cantFail(readFile(files[1])), warp);
}

} // namespace
} // namespace kiln
