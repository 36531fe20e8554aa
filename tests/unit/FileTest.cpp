// Files and directories are written completely or not at all, and never over other people's.
#include "RefuseCalls.h"
#include "TestSupport.h"

#include "support/files/MappedFile.h"

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <thread>

namespace kiln {
namespace {

namespace fs = llvm::sys::fs;

constexpr StringRef owned[] = {"plan.toml", "cubin/*/*.cubin"};

/// Names of everything below a directory, in order.
std::vector<std::string> listing(StringRef directory) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::recursive_directory_iterator it(directory, failure, false), end; it != end && !failure;
       it.increment(failure))
    names.push_back(StringRef(it->path()).drop_front(directory.size() + 1).str());
  llvm::sort(names);
  return names;
}

using Names = std::vector<std::string>;

Error replace(StringRef target, StringRef text) {
  Expected<StagedDirectory> stage = StagedDirectory::create(target, owned);
  if (!stage)
    return stage.takeError();
  if (Error error = stage->write("plan.toml", text))
    return error;
  return stage->commit();
}

TEST(StagedDirectory, ReplacesItsOwnFiles) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/new/plan";
  expectSuccess(replace(target, "first"));
  fs::create_directories(target + "/cubin/sm_80");
  expectSuccess(writeFile(target + "/cubin/sm_80/a.cubin", "old"));
  expectSuccess(replace(target, "second"));
  EXPECT_EQ(listing(directory.str()), Names({"new", "new/plan", "new/plan/plan.toml"}));
  EXPECT_EQ(unwrap(readFile(target + "/plan.toml")), "second");
}

TEST(StagedDirectory, LeavesOtherDirectoriesAlone) {
  for (std::string name :
       {"notes.txt", "plan.toml.orig", "cubin/a.cubin", "cubin/sm_80/a.txt", "deep/er/file", ".hidden"}) {
    TemporaryDirectory directory;
    std::string target = directory.str() + "/plan";
    expectSuccess(replace(target, "mine"));
    fs::create_directories(llvm::sys::path::parent_path(target + "/" + name));
    expectSuccess(writeFile(target + "/" + name, "yours"));
    Names before = listing(directory.str());
    EXPECT_EQ(directory.relative(messageOf(replace(target, "new"))),
              "plan: error: cannot write: expected a new or empty directory or an earlier result, got one that holds " +
                  name + "\n");
    EXPECT_EQ(listing(directory.str()), before);
    EXPECT_EQ(unwrap(readFile(target + "/plan.toml")), "mine");
  }
}

TEST(StagedDirectory, KeepsLinksToDirectories) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/real", link = directory.str() + "/link";
  expectSuccess(replace(target, "first"));
  ASSERT_FALSE(fs::create_link(target, link));
  expectSuccess(replace(link, "second"));
  EXPECT_TRUE(fs::is_symlink_file(link));
  EXPECT_EQ(unwrap(readFile(target + "/plan.toml")), "second");
}

TEST(StagedDirectory, RefusesFiles) {
  TemporaryDirectory directory;
  std::string file = directory.write("file", "yours");
  EXPECT_EQ(directory.relative(messageOf(replace(file, "x"))),
            "file: error: cannot write: expected a directory, got a file\n");
  EXPECT_EQ(directory.relative(messageOf(replace(file + "/plan", "x"))),
            "file/plan: error: cannot write: Not a directory\n");
  EXPECT_EQ(listing(directory.str()), Names({"file"}));
}

TEST(StagedDirectory, RefusesTheRoot) {
  for (StringRef root : {"/", "//"})
    EXPECT_EQ(messageOf(replace(root.str(), "x")), root.str() + ": error: cannot write: the root directory cannot be "
                                                                "replaced\n");
}

/// The stage has another name, and is gone when the user reads the message.
TEST(StagedDirectory, ErrorsNameFilesOfTheTarget) {
  TemporaryDirectory directory;
  StagedDirectory stage = unwrap(StagedDirectory::create(directory.str() + "/plan", owned));
  expectSuccess(stage.write("cubin", "a file"));
  EXPECT_EQ(directory.relative(messageOf(stage.write("cubin/sm_90a/a.cubin", "x"))),
            "plan/cubin/sm_90a/a.cubin: error: cannot write: Not a directory\n");
}

TEST(StagedDirectory, LeavesNothingWithoutCommit) {
  TemporaryDirectory directory;
  {
    StagedDirectory stage = unwrap(StagedDirectory::create(directory.str() + "/plan", owned));
    expectSuccess(stage.write("cubin/sm_80/a.cubin", "x"));
  }
  EXPECT_EQ(listing(directory.str()), Names());
}

TEST(StagedDirectory, ReplacesAnEmptyDirectory) {
  TemporaryDirectory directory;
  expectSuccess(replace(directory.str(), "new"));
  EXPECT_EQ(listing(directory.str()), Names({"plan.toml"}));
}

TEST(StagedDirectory, KeepsWhatAppearsWhileItIsStaged) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan";
  StagedDirectory stage = unwrap(StagedDirectory::create(target, owned));
  expectSuccess(writeFiles(target, {{"yours", "yours"}}));
  EXPECT_EQ(
      directory.relative(messageOf(stage.commit())),
      "plan: error: cannot write: expected a new or empty directory or an earlier result, got one that holds yours\n");
  EXPECT_EQ(listing(target), Names({"yours"}));
}

TEST(StagedDirectory, IsThereAtEveryMoment) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan";
  expectSuccess(replace(target, "0"));
  std::atomic<bool> isDone = false;
  size_t missing = 0;
  std::thread reader([&] {
    while (!isDone)
      missing += fs::exists(target + "/plan.toml") ? 0 : 1;
  });
  for (int i = 1; i <= 300; ++i)
    expectSuccess(replace(target, std::to_string(i)));
  isDone = true;
  reader.join();
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(listing(directory.str()), Names({"plan", "plan/plan.toml"}));
}

TEST(StagedDirectory, SeveralMayWriteTheSame) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan";
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn)
        EXPECT_EQ(messageOf(replace(target, "text")), "");
    });
  for (std::thread &writer : writers)
    writer.join();
  EXPECT_EQ(listing(directory.str()), Names({"plan", "plan/plan.toml"}));
}

TEST(StagedDirectory, SweepsWhatAKilledProcessLeft) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan";
  expectSuccess(writeFiles(target + ".tmp-0123456789ab", {{"plan.toml", "half"}}));
  expectSuccess(writeFiles(directory.str() + "/other.tmp-0123456789ab", {{"plan.toml", "half"}}));
  directory.write("plan.tmp-backup", "yours");
  expectSuccess(replace(target, "whole"));
  EXPECT_EQ(listing(directory.str()), Names({"other.tmp-0123456789ab", "other.tmp-0123456789ab/plan.toml", "plan",
                                             "plan.tmp-backup", "plan/plan.toml"}));
}

/// Leftovers of a process that was killed between two renames, on a file system that cannot exchange directories.
TEST(StagedDirectory, RestoresWhatWasSetAside) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan", old = target + ".old-0123456789ab";
  expectSuccess(writeFiles(old, {{"plan.toml", "old"}}));
  int live = open(old.c_str(), O_RDONLY); // as if the process went on
  ASSERT_EQ(flock(live, LOCK_EX), 0);
  restoreReplaced(target);
  EXPECT_FALSE(fs::exists(target));
  close(live);
  restoreReplaced(target);
  EXPECT_EQ(unwrap(readFile(target + "/plan.toml")), "old");
  expectSuccess(writeFiles(old, {{"plan.toml", "older"}}));
  expectSuccess(replace(target, "new"));
  EXPECT_EQ(listing(directory.str()), Names({"plan", "plan/plan.toml"}));
  EXPECT_EQ(unwrap(readFile(target + "/plan.toml")), "new");
}

TEST(StagedDirectoryDeathTest, ReplacesWithoutExchange) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan";
  expectSuccess(replace(target, "old"));
  auto replaceIt = [&] {
    if (!refuseCalls({SYS_renameat2}, EINVAL))
      _exit(cannotTest);
    if (Error error = replace(target, "new"); error || unwrap(readFile(target + "/plan.toml")) != "new")
      _exit(failed);
    _exit(passed);
  };
  EXPECT_EXIT(replaceIt(), hasPassed, "");
  EXPECT_EQ(listing(directory.str()), Names({"plan", "plan/plan.toml"}));
}

TEST(StagedDirectoryDeathTest, InterruptsWait) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan";
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    auto interrupted = [&](bool isCommitted) {
      StagedDirectory stage = unwrap(StagedDirectory::create(target, owned));
      std::raise(signal);
      expectSuccess(stage.write("plan.toml", "x"));
      if (isCommitted)
        expectSuccess(stage.commit());
    };
    EXPECT_EXIT(interrupted(false), testing::KilledBySignal(signal), "");
    EXPECT_EQ(listing(directory.str()), Names());
    EXPECT_EXIT(interrupted(true), testing::KilledBySignal(signal), "");
    EXPECT_EQ(listing(directory.str()), Names({"plan", "plan/plan.toml"}));
    fs::remove_directories(target);
  }
}

TEST(StagedDirectoryDeathTest, InterruptsOfSeveralWait) {
  TemporaryDirectory directory;
  auto interrupted = [&] {
    StagedDirectory first = unwrap(StagedDirectory::create(directory.str() + "/first", owned));
    {
      StagedDirectory second = unwrap(StagedDirectory::create(directory.str() + "/second", owned));
      expectSuccess(second.write("plan.toml", "x"));
      expectSuccess(second.commit());
    }
    std::raise(SIGTERM);
    expectSuccess(first.write("plan.toml", "x"));
    expectSuccess(first.commit());
  };
  EXPECT_EXIT(interrupted(), testing::KilledBySignal(SIGTERM), "");
  EXPECT_EQ(listing(directory.str()), Names({"first", "first/plan.toml", "second", "second/plan.toml"}));
}

TEST(StagedDirectoryDeathTest, SignalsThatAreIgnoredStayIgnored) {
  TemporaryDirectory directory;
  auto ignored = [&] {
    std::signal(SIGHUP, SIG_IGN);
    {
      StagedDirectory stage = unwrap(StagedDirectory::create(directory.str() + "/plan", owned));
      std::raise(SIGHUP);
    }
    std::raise(SIGHUP);
    _exit(passed);
  };
  EXPECT_EXIT(ignored(), hasPassed, "");
}

TEST(WriteFiles, AddsToWhatIsThere) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/dump";
  expectSuccess(writeFiles(target, {{"ir/a", "1"}, {"b", "2"}}));
  expectSuccess(writeFile(target + "/yours", "yours"));
  expectSuccess(writeFiles(target, {{"ir/a", "3"}, {"ir/c", "4"}}));
  EXPECT_EQ(listing(target), Names({"b", "ir", "ir/a", "ir/c", "yours"}));
  EXPECT_EQ(unwrap(readFile(target + "/ir/a")), "3");
  EXPECT_EQ(unwrap(readFile(target + "/yours")), "yours");
}

TEST(WriteFiles, RefusesFiles) {
  TemporaryDirectory directory;
  std::string file = directory.write("file", "yours");
  EXPECT_EQ(directory.relative(messageOf(writeFiles(file, {{"a", "1"}}))),
            "file: error: cannot write: expected a directory, got a file\n");
  EXPECT_EQ(unwrap(readFile(file)), "yours");
}

TEST(WriteFile, KeepsDevicesAndLinks) {
  TemporaryDirectory directory;
  std::string file = directory.write("file", "old"), link = directory.str() + "/link";
  ASSERT_FALSE(fs::create_link(file, link));
  expectSuccess(writeFile(link, "new"));
  EXPECT_TRUE(fs::is_symlink_file(link));
  EXPECT_EQ(unwrap(readFile(file)), "new");
  EXPECT_EQ(listing(directory.str()), Names({"file", "link"}));
  // A link to a file that does not exist yet, and a link to itself.
  ASSERT_FALSE(fs::create_link("later", directory.str() + "/ahead"));
  expectSuccess(writeFile(directory.str() + "/ahead", "first"));
  EXPECT_EQ(listing(directory.str()), Names({"ahead", "file", "later", "link"}));
  EXPECT_EQ(unwrap(readFile(directory.str() + "/later")), "first");
  ASSERT_FALSE(fs::create_link("loop", directory.str() + "/loop"));
  EXPECT_EQ(directory.relative(messageOf(writeFile(directory.str() + "/loop", "x"))),
            "loop: error: cannot write: Too many levels of symbolic links\n");
  // Through a link, so that a mistake here replaces the link and not the device.
  ASSERT_FALSE(fs::create_link("/dev/full", directory.str() + "/full"));
  EXPECT_EQ(directory.relative(messageOf(writeFile(directory.str() + "/full", "x"))),
            "full: error: cannot write: No space left on device\n");
}

TEST(WriteFile, LeavesWhatIsReadWhileItIsWritten) {
  TemporaryDirectory directory;
  std::string file = directory.write("file", "old"), link = directory.str() + "/link";
  ASSERT_FALSE(fs::create_link(file, link));
  MappedFile mapped = unwrap(MappedFile::open(file));
  auto copy = [&](raw_ostream &os) {
    os << StringRef(reinterpret_cast<const char *>(mapped.bytes().data()), mapped.bytes().size()) << " and new";
    return Error::success();
  };
  expectSuccess(writeFile(link, copy));
  EXPECT_EQ(unwrap(readFile(file)), "old and new");
  EXPECT_EQ(mapped.bytes().size(), 3u);
  expectSuccess(checkWritable(link));
}

TEST(CheckWritable, SaysWhatWritingWouldSay) {
  TemporaryDirectory directory;
  std::string file = directory.write("file", "old");
  expectSuccess(checkWritable(file));
  expectSuccess(checkWritable(directory.str() + "/new"));
  expectSuccess(checkWritable("/dev/null"));
  for (const std::string &path : {directory.str(), directory.str() + "/none/new", file + "/new"}) {
    std::string message = messageOf(checkWritable(path));
    EXPECT_NE(message, "");
    EXPECT_EQ(message, messageOf(writeFile(path, "new")));
  }
  EXPECT_EQ(listing(directory.str()), Names({"file"}));
  EXPECT_EQ(unwrap(readFile(file)), "old");
}

} // namespace
} // namespace kiln
