// An entry of a cache is what was stored under its key, or missing.
#include "TestSupport.h"

#include "support/files/CacheEntry.h"

namespace kiln {
namespace {

TEST(CacheEntry, ComesBackUnchanged) {
  TemporaryDirectory directory;
  std::string path = directory.str() + "/entry";
  for (StringRef bytes : {StringRef("one\ntwo"), StringRef(""), StringRef("\0\n\xff", 3)}) {
    expectSuccess(writeCacheEntry(path, "key", bytes));
    EXPECT_EQ(readCacheEntry(path, "key"), bytes.str());
    // The bytes come first, as a library needs.
    EXPECT_TRUE(StringRef(unwrap(readFile(path))).starts_with(bytes));
  }
}

TEST(CacheEntry, IsNoneWithoutAFile) {
  TemporaryDirectory directory;
  EXPECT_EQ(readCacheEntry(directory.str() + "/entry", "key"), std::nullopt);
  EXPECT_EQ(readCacheEntry(directory.str(), "key"), std::nullopt);
}

TEST(CacheEntry, IsNoneUnderAnotherKey) {
  TemporaryDirectory directory;
  std::string path = directory.str() + "/entry";
  expectSuccess(writeCacheEntry(path, "key", "bytes"));
  EXPECT_EQ(readCacheEntry(path, "other"), std::nullopt);
}

TEST(CacheEntry, IsNoneWhenCutOrChangedAnywhere) {
  TemporaryDirectory directory;
  std::string path = directory.str() + "/entry";
  expectSuccess(writeCacheEntry(path, "key", "bytes"));
  std::string whole = unwrap(readFile(path));
  for (size_t i = 0; i < whole.size(); ++i) {
    expectSuccess(writeFile(path, StringRef(whole).take_front(i)));
    EXPECT_EQ(readCacheEntry(path, "key"), std::nullopt) << i << " bytes left";
    std::string changed = whole;
    changed[i] ^= 1;
    expectSuccess(writeFile(path, changed));
    EXPECT_EQ(readCacheEntry(path, "key"), std::nullopt) << "byte " << i << " changed";
  }
  expectSuccess(writeFile(path, whole + "\n"));
  EXPECT_EQ(readCacheEntry(path, "key"), std::nullopt);
}

} // namespace
} // namespace kiln
