// The set of bytes that launches of a call have written.
#include "runtime/device/emulated/memory/WrittenBytes.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

const void *at(uintptr_t address) { return reinterpret_cast<const void *>(address); }

TEST(WrittenBytes, HoldsWhatWasNoted) {
  WrittenBytes written;
  EXPECT_FALSE(written.holdsAny(at(0), 1 << 20));
  written.note(at(4090), 100); // across a page
  EXPECT_TRUE(written.holdsAny(at(4090), 1));
  EXPECT_TRUE(written.holdsAny(at(4189), 1));
  EXPECT_TRUE(written.holdsAny(at(0), 4091));
  EXPECT_TRUE(written.holdsAny(at(4189), 1000));
  EXPECT_FALSE(written.holdsAny(at(0), 4090));
  EXPECT_FALSE(written.holdsAny(at(4190), 10000));
  written.note(at(64), 64);
  EXPECT_FALSE(written.holdsAny(at(63), 1));
  EXPECT_TRUE(written.holdsAny(at(127), 1));
  EXPECT_FALSE(written.holdsAny(at(128), 64));
}

TEST(WrittenBytes, AddsOthersAndForgets) {
  WrittenBytes all, more;
  all.note(at(8), 4);
  more.note(at(12), 4);
  more.note(at(100000), 1);
  all.add(more);
  for (uintptr_t address : {8, 15, 100000})
    EXPECT_TRUE(all.holdsAny(at(address), 1)) << address;
  EXPECT_FALSE(all.holdsAny(at(16), 1));
  all.clear();
  EXPECT_FALSE(all.holdsAny(at(0), 1 << 20));
  all.note(at(8), 1);
  EXPECT_TRUE(all.holdsAny(at(8), 1));
}

} // namespace
} // namespace kiln
