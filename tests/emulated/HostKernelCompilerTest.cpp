// Compiling for the CPU: the cache, and messages of failures.

#include "emulated/Fixture.h"

#include "support/files/File.h"

#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace kiln {
namespace {

namespace fs = llvm::sys::fs;

class HostKernelCompilerTest : public EmulatedTest {
protected:
  void SetUp() override {
    ASSERT_FALSE(fs::createUniqueDirectory("kiln-host-kernels", directory));
    cache = (directory + "/cache").str();
  }
  void TearDown() override { fs::remove_directories(directory); }

  HostKernelCompiler compiler() const { return cantFail(HostKernelCompiler::create({KILN_TEMPLATES, cache, ""})); }

  /// Names of the files in the cache.
  std::vector<std::string> cached(StringRef suffix) const {
    std::vector<std::string> names;
    std::error_code failure;
    for (fs::recursive_directory_iterator file(cache, failure), end; file != end && !failure; file.increment(failure))
      if (!fs::is_directory(file->path()) && StringRef(file->path()).ends_with(suffix))
        names.push_back(file->path());
    return names;
  }

  float result(const KernelLibrary &library) {
    auto out = buffer<float>(1);
    EXPECT_EQ(printed(launch(library.kernel("answer"), {1}, 1, {}, out)), "");
    return out[0];
  }

  static std::string answering(StringRef value) {
    return ("#include \"device/base.cuh\"\nextern \"C\" __global__ void answer(float *out) { *out = " + value + "; }\n")
        .str();
  }

  SmallString<128> directory;
  std::string cache;
};

TEST_F(HostKernelCompilerTest, CompilesOnceAndLoadsAgain) {
  auto first = cantFail(compiler().compile("answer.cu", answering("42"), {"answer"}));
  EXPECT_EQ(result(*first), 42);
  std::vector<std::string> libraries = cached(".so");
  ASSERT_EQ(libraries.size(), 1u);

  fs::file_status before, after;
  ASSERT_FALSE(fs::status(libraries[0], before));
  auto second = cantFail(compiler().compile("answer.cu", answering("42"), {"answer"}));
  ASSERT_FALSE(fs::status(libraries[0], after));
  EXPECT_EQ(before.getUniqueID(), after.getUniqueID());
  EXPECT_EQ(result(*second), 42);

  auto other = cantFail(compiler().compile("answer.cu", answering("43"), {"answer"}));
  EXPECT_EQ(result(*other), 43);
  EXPECT_EQ(result(*first), 42); // libraries do not see each other's functions of the same name
  EXPECT_EQ(cached(".so").size(), 2u);
}

TEST_F(HostKernelCompilerTest, EveryTemplateCounts) {
  std::string templates = (directory + "/templates").str();
  ASSERT_FALSE(fs::create_directories(templates + "/device"));
  for (StringRef name : {"base.cuh", "emulated.cuh", "emulated_entry.cuh"})
    ASSERT_FALSE(fs::copy_file((KILN_TEMPLATES "/device/" + name).str(), (templates + "/device/" + name).str()));
  cantFail(writeFile(templates + "/value.cuh", "constexpr float kValue = 1;\n"));
  auto compileWithValue = [&] {
    auto changed = cantFail(HostKernelCompiler::create({templates, cache, ""}));
    return cantFail(changed.compile("a.cu", "#include \"value.cuh\"\n" + answering("kValue"), {"answer"}));
  };
  EXPECT_EQ(result(*compileWithValue()), 1);
  cantFail(writeFile(templates + "/value.cuh", "constexpr float kValue = 2;\n"));
  EXPECT_EQ(result(*compileWithValue()), 2);
}

TEST_F(HostKernelCompilerTest, SeveralMayCompileTheSameAtOnce) {
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<KernelLibrary>> libraries(3);
  HostKernelCompiler shared = compiler();
  for (auto &library : libraries)
    threads.emplace_back([&] { library = cantFail(shared.compile("answer.cu", answering("5"), {"answer"})); });
  for (std::thread &thread : threads)
    thread.join();
  for (auto &library : libraries)
    EXPECT_EQ(result(*library), 5);
  EXPECT_EQ(cached(".so").size(), 1u);
  EXPECT_EQ(cached("").size(), 2u); // the library and its source; nothing temporary
}

TEST_F(HostKernelCompilerTest, ReportsWhatTheCompilerSays) {
  auto library = compiler().compile("answer.cu", answering("nothing"), {"answer"});
  ASSERT_FALSE(library);
  std::string text = printed(library.takeError());
  EXPECT_TRUE(StringRef(text).starts_with("answer.cu: error: expected CUDA that ")) << text;
  EXPECT_TRUE(StringRef(text).contains("\nanswer.cu:2:")) << text;
  EXPECT_TRUE(StringRef(text).contains("nothing")) << text;
  EXPECT_TRUE(cached(".so").empty());
}

TEST_F(HostKernelCompilerTest, ReportsAKernelThatIsNotThere) {
  auto library = compiler().compile("answer.cu", answering("1"), {"answer", "question"});
  ASSERT_FALSE(library);
  std::string text = printed(library.takeError());
  EXPECT_TRUE(StringRef(text).contains("question")) << text;
}

TEST_F(HostKernelCompilerTest, ReportsAMissingCompiler) {
  auto missing = HostKernelCompiler::create({KILN_TEMPLATES, cache, "no-such-compiler"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(printed(missing.takeError()), "error: expected a C++ compiler to run kernels without a GPU, found none "
                                          "(tried no-such-compiler; set CXX to one)\n");
}

TEST_F(HostKernelCompilerTest, ReportsMissingTemplates) {
  auto missing = HostKernelCompiler::create({"/no/such/directory", cache, ""});
  ASSERT_FALSE(missing);
  EXPECT_EQ(printed(missing.takeError()), "/no/such/directory: error: cannot read: No such file or directory\n");
}

TEST_F(HostKernelCompilerTest, ReportsACacheThatCannotBeWritten) {
  cache = "/proc/no-cache";
  auto library = compiler().compile("answer.cu", answering("1"), {"answer"});
  ASSERT_FALSE(library);
  std::string text = printed(library.takeError());
  EXPECT_TRUE(StringRef(text).starts_with("/proc/no-cache: error: cannot write: ")) << text;
}

TEST_F(HostKernelCompilerTest, CompilesADamagedLibraryAgain) {
  auto compileSeven = [&] { return cantFail(compiler().compile("answer.cu", answering("7"), {"answer"})); };
  EXPECT_EQ(result(*compileSeven()), 7);
  std::string library = cached(".so").front();
  std::string whole = cantFail(readFile(library));
  cantFail(compiler().compile("answer.cu", answering("8"), {"answer"}));
  std::vector<std::string> both = cached(".so");
  std::string other = cantFail(readFile(both[0] == library ? both[1] : both[0]));
  std::string changed = whole;
  changed[whole.size() / 2] ^= 1;
  // A truncated library can be loaded, but its missing part is SIGBUS when touched.
  for (StringRef damaged : {StringRef(whole).take_front(4096), StringRef(whole).drop_back(), StringRef(),
                            StringRef("not a library"), StringRef(changed), StringRef(other)}) {
    cantFail(writeFile(library, damaged));
    EXPECT_EQ(result(*compileSeven()), 7);
    EXPECT_EQ(cantFail(readFile(library)).size(), whole.size());
  }
}

TEST_F(HostKernelCompilerTest, SweepsWhatAKilledProcessHasLeft) {
  // This compiler writes a temporary file and never ends.
  std::string slow = (directory + "/slow").str(), running = (directory + "/running").str();
  cantFail(writeFile(slow, "#!/bin/sh\n[ $1 = --version ] && exit\necho half > $TMPDIR/half.s\necho $$ > " + running +
                               ".new\nmv " + running + ".new " + running + "\nexec sleep 1000\n"));
  ASSERT_FALSE(fs::setPermissions(slow, fs::all_all));
  std::string temporaries = (directory + "/temporaries").str();
  ASSERT_FALSE(fs::create_directory(temporaries));
  pid_t process = fork();
  if (process == 0) {
    setenv("TMPDIR", temporaries.c_str(), 1);
    auto compiler = cantFail(HostKernelCompiler::create({KILN_TEMPLATES, cache, slow}));
    llvm::consumeError(compiler.compile("answer.cu", answering("7"), {"answer"}).takeError());
    _exit(1);
  }
  while (!fs::exists(running) && waitpid(process, nullptr, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  pid_t compilerProcess = 0;
  ASSERT_FALSE(StringRef(cantFail(readFile(running))).trim().getAsInteger(10, compilerProcess));
  kill(compilerProcess, SIGKILL);

  EXPECT_EQ(cached("/half.s").size(), 1u);
  std::error_code failure;
  EXPECT_EQ(fs::directory_iterator(temporaries, failure), fs::directory_iterator());
  compiler();
  EXPECT_EQ(cached("").size(), 1u); // the source
}

} // namespace
} // namespace kiln
