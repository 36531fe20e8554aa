// Temporary files are removed with their object, kept while their process lives, and swept when it has ended.
#include "TestSupport.h"

#include "support/files/Leftovers.h"

#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace kiln {
namespace {

namespace fs = llvm::sys::fs;

size_t countFiles(StringRef directory) {
  size_t count = 0;
  std::error_code failure;
  for (fs::directory_iterator file(directory, failure, false), end; file != end && !failure; file.increment(failure))
    ++count;
  return count;
}

/// A process that makes and holds a temporary file, and a temporary directory with a file in it.
class Holder {
public:
  explicit Holder(const std::string &target) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    process = fork();
    if (process == 0) {
      Temporary file = cantFail(Temporary::create(target, Temporary::Kind::File));
      Temporary directory = cantFail(Temporary::create(target, Temporary::Kind::Directory));
      cantFail(writeFile((directory.path() + "/part").str(), "half"));
      if (write(ready[1], "r", 1) == 1)
        pause();
      _exit(1);
    }
    char letter;
    EXPECT_EQ(read(ready[0], &letter, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  void kill() {
    EXPECT_EQ(::kill(process, SIGKILL), 0);
    EXPECT_EQ(waitpid(process, nullptr, 0), process);
  }

private:
  pid_t process;
};

TEST(Leftovers, ATemporaryGoesAwayWithItsObject) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan";
  for (Temporary::Kind kind : {Temporary::Kind::File, Temporary::Kind::Directory}) {
    Temporary temporary = unwrap(Temporary::create(target, kind));
    EXPECT_EQ(fs::is_directory(temporary.path()), kind == Temporary::Kind::Directory);
    EXPECT_EQ(countFiles(directory.str()), 1u);
    Temporary moved = std::move(temporary);
  }
  EXPECT_EQ(countFiles(directory.str()), 0u);
}

TEST(Leftovers, AMovedFileReplacesItsTarget) {
  TemporaryDirectory directory;
  std::string target = directory.write("plan", "old");
  {
    Temporary temporary = unwrap(Temporary::create(target, Temporary::Kind::File));
    ASSERT_EQ(write(temporary.descriptor(), "new", 3), 3);
    expectSuccess(temporary.moveToTarget());
  }
  EXPECT_EQ(unwrap(readFile(target)), "new");
  EXPECT_EQ(countFiles(directory.str()), 1u);
}

TEST(Leftovers, WhatCannotBeMadeSaysWhy) {
  TemporaryDirectory directory;
  for (Temporary::Kind kind : {Temporary::Kind::File, Temporary::Kind::Directory})
    EXPECT_EQ(directory.relative(messageOf(Temporary::create(directory.str() + "/no/plan", kind))),
              "no/plan: error: cannot write: No such file or directory\n");
}

TEST(Leftovers, OnlyADeadProcessLeavesSome) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan";
  Holder first(target), second(target);
  EXPECT_EQ(countFiles(directory.str()), 4u);
  sweepLeftovers(target);
  sweepLeftoversIn(directory.str());
  EXPECT_EQ(countFiles(directory.str()), 4u);
  first.kill();
  sweepLeftovers(target);
  EXPECT_EQ(countFiles(directory.str()), 2u);
  second.kill();
  sweepLeftoversIn(directory.str());
  EXPECT_EQ(countFiles(directory.str()), 0u);
}

TEST(Leftovers, OtherNamesStay) {
  TemporaryDirectory directory;
  for (StringRef name : {"plan", "plan.tmp-", "plan.tmp-backup", "plan.tmp-0123456789ab.txt", ".tmp-0123456789ab",
                         "other.tmp-0123456789ab"})
    directory.write(name, "mine");
  std::string linked = directory.write("linked", "mine");
  ASSERT_FALSE(fs::create_link(linked, directory.str() + "/plan.tmp-0123456789ab"));
  sweepLeftovers(directory.str() + "/plan");
  EXPECT_EQ(countFiles(directory.str()), 8u);
  sweepLeftoversIn(directory.str());
  EXPECT_EQ(countFiles(directory.str()), 7u); // without the other target's
}

TEST(Leftovers, SweepsComeBetweenNothing) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan";
  std::atomic<bool> isDone = false;
  std::thread sweeper([&] {
    while (!isDone)
      sweepLeftovers(target);
  });
  for (int i = 0; i < 500; ++i) {
    Temporary::Kind kind = i % 2 ? Temporary::Kind::File : Temporary::Kind::Directory;
    Temporary temporary = unwrap(Temporary::create(target, kind));
    EXPECT_TRUE(fs::exists(temporary.path()));
    std::this_thread::yield();
    EXPECT_TRUE(fs::exists(temporary.path()));
  }
  isDone = true;
  sweeper.join();
}

} // namespace
} // namespace kiln
