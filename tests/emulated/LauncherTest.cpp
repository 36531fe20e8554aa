// Launches that no GPU would accept, and the emulated device's memory and stacks.

#include "emulated/Fixture.h"

#include "runtime/device/emulated/block/Fiber.h"
#include "runtime/device/emulated/memory/Sanitizer.h"

#include <cmath>

namespace kiln {
namespace {

class LauncherTest : public EmulatedTest {
protected:
  std::string failure(Dim3 grid, Dim3 block, size_t dynamicBytes, std::vector<void *> args,
                      const LaunchOptions &options = {}) {
    return printed(
        launcher.launch(kernelLibrary("numbers").kernel("infinities"), grid, block, dynamicBytes, args, options));
  }
};

TEST_F(LauncherTest, RefusesImpossibleLaunches) {
  auto out = buffer<float>(2);
  std::vector<void *> args = {&out.data};
  const std::string start = "numbers.cu: error: kernel infinities: expected ";
  EXPECT_EQ(failure({1}, {1}, 0, {}), start + "1 arguments, got 0\n");
  EXPECT_EQ(failure({4, 0}, {1}, 0, args), start + "a grid of at least one block, got 4x0x1\n");
  // The product of these is 0 in 64 bits.
  EXPECT_EQ(failure({1u << 31, 1u << 31, 4}, {1}, 0, args),
            start + "a grid of at most 2147483647x65535x65535 blocks, got 2147483648x2147483648x4\n");
  EXPECT_EQ(failure({1, 65536}, {1}, 0, args),
            start + "a grid of at most 2147483647x65535x65535 blocks, got 1x65536x1\n");
  EXPECT_EQ(failure({1, 1, 65536}, {1}, 0, args),
            start + "a grid of at most 2147483647x65535x65535 blocks, got 1x1x65536\n");
  EXPECT_EQ(failure({0x7fffffff, 0xffff, 0xffff}, {32}, 0, args, {.cooperative = true}),
            start + "a cooperative launch of at most 1048576 threads, got 9223090559730712575 blocks of 32\n");
  EXPECT_EQ(failure({1}, {0}, 0, args), start + "a block of 1 to 1024 threads, got 0\n");
  EXPECT_EQ(failure({1}, {1025}, 0, args), start + "a block of 1 to 1024 threads, got 1025\n");
  EXPECT_EQ(failure({1}, {8, 2}, 0, args), start + "a one-dimensional block, got 8x2x1\n");
  EXPECT_EQ(failure({1}, {1}, 227 * 1024 + 1, args),
            start + "at most 232448 bytes of dynamic shared memory, got 232449\n");
  EXPECT_EQ(failure({1}, {1024}, 227 * 1024, args), "");
}

TEST_F(LauncherTest, FreshMemoryIsNaNAndAligned) {
  auto floats = buffer<float>(3);
  auto halves = buffer<uint16_t>(3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::isnan(floats[i]));
    EXPECT_EQ(halves[i], 0x7fdb); // NaN as bf16 and as f16
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(floats.data) % 256, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(halves.data) % 256, 0u);
}

TEST_F(LauncherTest, MemoryIsReusedAfterFree) {
  for (int i = 0; i < 3; ++i) {
    auto out = buffer<float>(1000);
    EXPECT_TRUE(std::isnan(out[999]));
    out[999] = 1;
    memory.free(out.data);
  }
  EXPECT_EQ(memory.takeDamage(), std::nullopt);
}

#if defined(KILN_ADDRESS_SANITIZER)

TEST(FiberStacksTest, GiveTheirAddressesBackUsable) {
  void *stack;
  {
    FiberStacks stacks;
    stack = stacks.take();
    Fiber fiber(stack, [] {});
    fiber.resume();
  }
  EXPECT_EQ(__asan_region_is_poisoned(stack, FiberStacks::stackBytes()), nullptr);
}

#endif

} // namespace
} // namespace kiln
