// Files and directories are written whole, and nothing of the user's is removed on the way.
#include "TestSupport.h"

using namespace kiln;

namespace fs = llvm::sys::fs;

namespace {

const std::string complaint = ": error: cannot write: expected a new or empty directory or an earlier result, got one ";

/// Stages one file for `target` and commits.
Error replaceDirectory(const std::string &target) {
  Expected<StagedDirectory> stage = StagedDirectory::create(target, {"plan.toml", "ir"});
  if (!stage)
    return stage.takeError();
  if (Error error = stage->write("ir/new.txt", "new"))
    return error;
  return stage->commit();
}

} // namespace

TEST(StagedDirectory, MakesTheDirectoryAndItsParents) {
  TemporaryDirectory directory;
  expectSuccess(replaceDirectory(directory.str() + "/a/b"));
  EXPECT_EQ(unwrap(readFile(directory.str() + "/a/b/ir/new.txt")), "new");
}

TEST(StagedDirectory, ReplacesAnEmptyDirectory) {
  TemporaryDirectory directory;
  expectSuccess(replaceDirectory(directory.str()));
  EXPECT_EQ(unwrap(readFile(directory.str() + "/ir/new.txt")), "new");
}

TEST(StagedDirectory, ReplacesAllOfAnEarlierResult) {
  TemporaryDirectory directory;
  expectSuccess(writeFiles(directory.str(), {{"plan.toml", "old"}, {"ir/old.txt", "old"}}));
  expectSuccess(replaceDirectory(directory.str()));
  EXPECT_FALSE(fs::exists(directory.str() + "/plan.toml"));
  EXPECT_FALSE(fs::exists(directory.str() + "/ir/old.txt"));
  EXPECT_EQ(unwrap(readFile(directory.str() + "/ir/new.txt")), "new");
}

TEST(StagedDirectory, KeepsADirectoryThatHoldsSomethingElse) {
  TemporaryDirectory directory;
  expectSuccess(writeFiles(directory.str(), {{"plan.toml", "old"}, {"precious.txt", "mine"}}));
  EXPECT_EQ(messageOf(replaceDirectory(directory.str())), directory.str() + complaint + "that holds precious.txt\n");
  EXPECT_EQ(unwrap(readFile(directory.str() + "/precious.txt")), "mine");
}

TEST(StagedDirectory, KeepsADirectoryThatOnlyLooksLikeAResult) {
  TemporaryDirectory directory;
  expectSuccess(writeFiles(directory.str(), {{"ir/precious.txt", "mine"}}));
  EXPECT_EQ(messageOf(replaceDirectory(directory.str())), directory.str() + complaint + "without plan.toml\n");
  EXPECT_EQ(unwrap(readFile(directory.str() + "/ir/precious.txt")), "mine");
}

TEST(StagedDirectory, KeepsWhatAppearsWhileItIsStaged) {
  TemporaryDirectory directory;
  std::string target = directory.str() + "/plan";
  StagedDirectory stage = unwrap(StagedDirectory::create(target, {"plan.toml"}));
  expectSuccess(stage.write("new.txt", "new"));
  expectSuccess(writeFiles(target, {{"precious.txt", "mine"}}));
  EXPECT_EQ(messageOf(stage.commit()), target + complaint + "that holds precious.txt\n");
  EXPECT_EQ(unwrap(readFile(target + "/precious.txt")), "mine");
}

TEST(StagedDirectory, LeavesNothingWithoutCommit) {
  TemporaryDirectory directory;
  {
    StagedDirectory stage = unwrap(StagedDirectory::create(directory.str() + "/plan", {"plan.toml"}));
    expectSuccess(stage.write("new.txt", "new"));
  }
  std::error_code failure;
  EXPECT_TRUE(fs::directory_iterator(directory.str(), failure) == fs::directory_iterator());
}

TEST(WriteFiles, KeepsWhatElseIsInTheDirectory) {
  TemporaryDirectory directory;
  std::string precious = directory.write("precious.txt", "mine");
  expectSuccess(writeFiles(directory.str(), {{"a.txt", "a"}, {"ir/b.txt", "b"}}));
  EXPECT_EQ(unwrap(readFile(directory.str() + "/a.txt")), "a");
  EXPECT_EQ(unwrap(readFile(directory.str() + "/ir/b.txt")), "b");
  EXPECT_EQ(unwrap(readFile(precious)), "mine");
}
