// Cubins and their cache: the same bytes wherever they are made, and no damaged ones.

#include "nvrtc/CubinCompiler.h"

#include "unit/TestSupport.h"

#include <sys/stat.h>
#include <unistd.h>

namespace kiln {
namespace {

namespace fs = llvm::sys::fs;

class CubinCompilerTest : public testing::Test {
protected:
  static std::string source(StringRef name) {
    return ("#include \"device/base.cuh\"\nextern \"C\" __global__ void " + name + "(float *x) { *x = 1; }\n").str();
  }

  CompiledKernel compile(StringRef name) const {
    return unwrap(unwrap(CubinCompiler::create(cache())).compile(name, source(name), "sm_80"));
  }

  std::string cache() const { return directory.str() + "/cache"; }

  std::vector<std::string> entries() const {
    std::vector<std::string> files;
    std::error_code failure;
    for (fs::directory_iterator file(cache(), failure), end; file != end && !failure; file.increment(failure))
      files.push_back(file->path());
    return files;
  }

  TemporaryDirectory directory;
};

TEST_F(CubinCompilerTest, EntriesComeBack) {
  CompiledKernel first = compile("one"), second = compile("one");
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_FALSE(first.ptx.empty());
  EXPECT_TRUE(second.ptx.empty()) << "compiled again";
  EXPECT_EQ(second.cubin, first.cubin);
  EXPECT_EQ(second.resources.registers, first.resources.registers);
}

TEST_F(CubinCompilerTest, AVirtualArchitectureHasPtxAlone) {
  CubinCompiler compiler = unwrap(CubinCompiler::create(cache()));
  CompiledKernel first = unwrap(compiler.compile("one", source("one"), "compute_80"));
  EXPECT_TRUE(StringRef(first.ptx).contains(".target sm_80")) << first.ptx;
  EXPECT_TRUE(first.cubin.empty());
  EXPECT_EQ(unwrap(compiler.compile("one", source("one"), "compute_80")).ptx, first.ptx);
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(CubinCompilerTest, DamagedEntriesAreMadeAgain) {
  CompiledKernel one = compile("one");
  std::string entry = entries().front(), whole = unwrap(readFile(entry));
  compile("two");
  std::vector<std::string> both = entries();
  std::string other = unwrap(readFile(both[0] == entry ? both[1] : both[0])), changed = whole;
  changed[whole.size() / 2] ^= 1;
  for (const std::string &damaged : {whole.substr(0, whole.size() / 2), whole.substr(0, 100), std::string(), changed,
                                     other, one.cubin, std::string("1 2 3 4 5\n") + one.cubin}) {
    expectSuccess(writeFile(entry, damaged));
    EXPECT_EQ(compile("one").cubin, one.cubin);
    EXPECT_EQ(unwrap(readFile(entry)), whole);
  }
}

TEST_F(CubinCompilerTest, TheWorkingDirectoryIsNotInThem) {
  CubinCompiler compiler = unwrap(CubinCompiler::create(""));
  SmallString<128> before;
  ASSERT_FALSE(fs::current_path(before));
  std::vector<std::string> cubins;
  for (StringRef name : {"a", "another"}) {
    std::string folder = directory.str() + "/" + name.str();
    ASSERT_FALSE(fs::create_directory(folder));
    ASSERT_FALSE(fs::set_current_path(folder));
    cubins.push_back(unwrap(compiler.compile("one", source("one"), "sm_80")).cubin);
    EXPECT_FALSE(StringRef(cubins.back()).contains(directory.str()));
  }
  ASSERT_FALSE(fs::set_current_path(before));
  EXPECT_EQ(cubins[0], cubins[1]);
}

TEST_F(CubinCompilerTest, ErrorsNameFilesAsTheyAreInAPlan) {
  CubinCompiler compiler = unwrap(CubinCompiler::create(""));
  EXPECT_EQ(messageOf(compiler.compile("one", "  # include  \"device/base.cuh\"\n__device__ int x = y;\n", "sm_80")),
            "kernels/one.cu: error: NVRTC for sm_80: NVRTC_ERROR_COMPILATION\n"
            "kernels/one.cu(2): error: identifier \"y\" is undefined\n"
            "  __device__ int x = y;\n"
            "                     ^\n\n"
            "1 error detected in the compilation of \"kernels/one.cu\".\n");
  std::string missing = messageOf(compiler.compile("one", "#include \"none.cuh\"\n", "sm_80"));
  EXPECT_TRUE(StringRef(missing).contains("cannot open source file \"none.cuh\"")) << missing;
}

TEST_F(CubinCompilerTest, TheCacheIsTheUsersAlone) {
  compile("one");
  struct stat status;
  ASSERT_EQ(stat(cache().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(chmod(cache().c_str(), 0770), 0);
  EXPECT_EQ(directory.relative(messageOf(CubinCompiler::create(cache()))),
            "cache: error: cache: expected a directory that only you can write to, since what is in it is run, got one "
            "that others can; take that from them with chmod go-w, or set KILN_CACHE to another\n");
  ASSERT_EQ(chmod(cache().c_str(), 0755), 0);
  compile("one");
  if (geteuid() != 0)
    return; // only root can change a folder's owner
  ASSERT_EQ(chown(cache().c_str(), 12345, 12345), 0);
  EXPECT_EQ(directory.relative(messageOf(CubinCompiler::create(cache()))),
            "cache: error: cache: expected a directory of your own, since what is in it is run, got one of user 12345; "
            "set KILN_CACHE to another\n");
}

TEST_F(CubinCompilerTest, WhatAKilledProcessLeftIsSwept) {
  compile("one");
  std::string left = entries().front() + ".tmp-0123456789ab";
  expectSuccess(writeFile(left, "half"));
  compile("one");
  EXPECT_FALSE(fs::exists(left));
}

} // namespace
} // namespace kiln
