// Reading whole files: files without an end, or that keep their reader waiting, are refused.
#include "TestSupport.h"

#include "runtime/weights/Safetensors.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace kiln {
namespace {

class ReadFileTest : public testing::Test {
protected:
  std::string path(StringRef name) const { return directory.str() + "/" + name.str(); }
  std::string makePipe() const {
    EXPECT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    return path("pipe");
  }
  template <class T> std::string error(Expected<T> result) { return directory.relative(messageOf(std::move(result))); }

  TemporaryDirectory directory;
};

TEST_F(ReadFileTest, OnlyRegularFilesAreFiles) {
  std::string pipe = makePipe();
  sockaddr_un address{AF_UNIX, {}};
  path("socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr *>(&address), sizeof(address)), 0);
  close(socket);
  ASSERT_FALSE(llvm::sys::fs::create_link("/dev/zero", path("zero")));
  const std::pair<StringRef, StringRef> cases[] = {{"pipe", "expected a regular file, got a pipe"},
                                                   {"socket", "expected a regular file, got a socket"},
                                                   {"zero", "expected a regular file, got a device"},
                                                   {"", "is a directory"},
                                                   {"none", "No such file or directory"}};
  SourceManager sources;
  for (const auto &[name, reason] : cases) {
    std::string message = (name + ": error: cannot read: " + reason + "\n").str();
    EXPECT_EQ(error(readFile(path(name))), message);
    EXPECT_EQ(error(sources.open(path(name))), message);
    EXPECT_EQ(error(SafetensorsFile::open(path(name))), message);
  }
}

TEST_F(ReadFileTest, FilesThatDoNotSayHowLongTheyAre) {
  EXPECT_TRUE(StringRef(unwrap(readFile("/proc/self/status"))).contains("VmSize:"));
}

TEST_F(ReadFileTest, FilesHaveALimit) {
  std::string file = directory.write("large", "x");
  ASSERT_EQ(truncate(file.c_str(), mostFileBytes + 1), 0);
  StringRef message = "large: error: cannot read: expected at most 268435456 bytes, got 268435457\n";
  EXPECT_EQ(error(readFile(file)), message);
  EXPECT_EQ(error(readInput(file)), message);
}

TEST_F(ReadFileTest, InputsMayBePipes) {
  std::string pipe = makePipe(), text(100'000, 'x');
  std::thread writer([&] { expectSuccess(writeFile(pipe, text)); });
  EXPECT_EQ(unwrap(readInput(pipe)), text);
  writer.join();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "text", 4), 4);
  close(ends[1]);
  EXPECT_EQ(unwrap(readInput("/dev/fd/" + std::to_string(ends[0]))), "text");
  close(ends[0]);
  EXPECT_EQ(unwrap(readInput("/dev/null")), "");
}

TEST_F(ReadFileTest, InputsMustEnd) {
  EXPECT_EQ(error(readInput("/dev/zero")),
            "/dev/zero: error: cannot read: expected at most 268435456 bytes, got more\n");
  EXPECT_EQ(error(readInput(directory.str())), directory.str() + ": error: cannot read: is a directory\n");
}

} // namespace
} // namespace kiln
