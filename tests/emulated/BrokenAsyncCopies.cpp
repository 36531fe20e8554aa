// Each kernel of kernels/broken_async_copies.cu has one error, which must be reported at its line.

#include "emulated/Fixture.h"

namespace kiln {
namespace {

class BrokenAsyncCopies : public EmulatedTest {
protected:
  static std::string errorAt(StringRef mark, StringRef kernel) { return errorIn("broken_async_copies", mark, kernel); }

  template <class... Args>
  std::string failure(StringRef kernel, uint32_t block, const LaunchOptions &options, const Args &...args) {
    return printed(launch(kernelLibrary("broken_async_copies", /*checkAccesses=*/true).kernel(kernel), {1}, block,
                          options, args...));
  }
};

/// The bytes of which are counted at run time: six floats, of which a copy gets some from the first or fifth on.
TEST_F(BrokenAsyncCopies, SourceOfAChunk) {
  auto run = [&](StringRef kernel, uint32_t first, uint32_t bytes) {
    auto x = buffer<float>(6);
    EXPECT_EQ(failure("writes_all", 6, {}, x), "");
    return failure(kernel, 1, {.startsAfterAll = false}, x, first, bytes);
  };
  for (uint32_t bytes : {0, 4, 8})
    EXPECT_EQ(run("chunk_from_outside", 4, bytes), "");
  EXPECT_EQ(run("chunk_from_outside", 8, 0), "");
  for (auto [first, bytes] : {std::pair(4, 12), std::pair(4, 16), std::pair(8, 4)})
    EXPECT_EQ(
        run("chunk_from_outside", static_cast<uint32_t>(first), static_cast<uint32_t>(bytes)),
        errorAt("chunk_from_outside", "chunk_from_outside") +
            formatv("thread 0 reads {0} bytes outside 'buffer' (24 bytes), at offset {1}\n", bytes, 4 * first).str());
  EXPECT_EQ(run("chunk_too_early", 0, 0), "");
  EXPECT_EQ(run("chunk_too_early", 0, 8), errorAt("chunk_too_early", "chunk_too_early") +
                                              "thread 0 reads 'buffer' before waitForDependencies(), where an earlier "
                                              "kernel of the call has written\n");
}

} // namespace
} // namespace kiln
