// Each kernel of kernels/broken.cu has one error, which must be reported with the kernel's name and line.

#include "emulated/Fixture.h"

#include "runtime/device/emulated/memory/Sanitizer.h"

namespace kiln {
namespace {

std::string place(StringRef mark) { return placeIn("broken", mark); }

class BrokenKernels : public EmulatedTest {
protected:
  /// The output for a launch of one kernel on a buffer of 64 zeros.
  template <class T = float>
  std::string failure(StringRef kernel, uint32_t block, const LaunchOptions &options = {}, Dim3 grid = {1}) {
    auto out = bufferOf(std::vector<T>(64));
    return printed(launch(kernelLibrary("broken").kernel(kernel), grid, block, options, out));
  }

  /// The start of a first line, and of a note.
  static std::string errorAt(StringRef mark, StringRef kernel) { return errorIn("broken", mark, kernel); }
  static std::string noteAt(StringRef mark) { return place(mark) + "note: "; }
};

TEST_F(BrokenKernels, ThreadLeavesBeforeABarrier) {
  std::string error = errorAt("leaves_early", "leaves_early");
  EXPECT_EQ(failure("leaves_early", 64), error + "threads 0-39 wait here, but thread 40 has left the kernel\n");
  // In reversed order, thread 39 comes to a barrier that another thread has already passed.
  EXPECT_EQ(failure("leaves_early", 64, {Schedule::Reversed}),
            error + "threads 41-63 wait here, but thread 40 has left the kernel\n");
}

TEST_F(BrokenKernels, ThreadsWaitAtDifferentBarriers) {
  EXPECT_EQ(failure("two_barriers", 64), errorAt("two_barriers second", "two_barriers") +
                                             "thread 32 waits at this barrier, but others wait at another one\n" +
                                             noteAt("two_barriers first") + "threads 0-31 are here\n");
}

TEST_F(BrokenKernels, LanesWaitAtDifferentCollectives) {
  EXPECT_EQ(failure("two_collectives", 32),
            errorAt("two_collectives second", "two_collectives") +
                "thread 16 takes part in this collective, but others of its warp wait at another one\n" +
                noteAt("two_collectives first") + "threads 0-15 are here\n");
}

TEST_F(BrokenKernels, LaneLeavesBeforeACollective) {
  EXPECT_EQ(failure("lane_leaves", 64),
            errorAt("lane_leaves", "lane_leaves") + "thread 32 waits here, but thread 33 has left the kernel\n");
}

TEST_F(BrokenKernels, HalfAWarpAtACollectiveThatMovesNothing) {
  for (StringRef kernel : {"computed_in_half_a_warp", "warpgroup_of_half_a_warp"})
    EXPECT_EQ(failure<uint32_t>(kernel, 32),
              errorAt(kernel, kernel) + "threads 0-15 wait here, but thread 16 has left the kernel\n");
}

TEST_F(BrokenKernels, BarrierThatCanNeverOpen) {
  EXPECT_EQ(failure("barrier_in_half_a_warp", 32),
            errorAt("barrier_in_half_a_warp collective", "barrier_in_half_a_warp") +
                "thread 16 waits here for threads that wait elsewhere\n" + noteAt("barrier_in_half_a_warp barrier") +
                "threads 0-15 are here\n" + noteAt("barrier_in_half_a_warp collective") + "threads 16-31 are here\n");
}

TEST_F(BrokenKernels, WriteThatNoThreadMakes) {
  EXPECT_EQ(failure<uint32_t>("waits_forever", 2),
            errorAt("waits_forever", "waits_forever") + "thread 0 waits here for a write that no thread makes\n");
}

TEST_F(BrokenKernels, BlocksThatWaitForEachOtherInAnOrdinaryLaunch) {
  EXPECT_EQ(failure<uint32_t>("waits_forever", 1, {}, {2}),
            errorAt("waits_forever", "waits_forever") +
                "thread 0 waits here for a write that no thread makes (only blocks "
                "of a cooperative launch may wait for each other)\n");
}

TEST_F(BrokenKernels, MisalignedVectorAccess) {
  StringRef message = "thread 0: misaligned vector access: expected an address aligned to its size\n";
  EXPECT_EQ(failure("misaligned_load", 1), errorAt("misaligned_load", "misaligned_load") + message.str());
  EXPECT_EQ(failure<uint16_t>("misaligned_store", 1), errorAt("misaligned_store", "misaligned_store") + message.str());
}

TEST_F(BrokenKernels, MissingBarrierShowsUnderAnotherSchedule) {
  auto result = [&](Schedule schedule, uint64_t seed) {
    auto out = buffer<uint32_t>(64);
    cantFail(launch(kernelLibrary("broken").kernel("missing_barrier"), {1}, 64, {schedule, seed}, out));
    return out.copy();
  };
  std::set<std::vector<uint32_t>> results = {result(Schedule::InOrder, 0), result(Schedule::Reversed, 0),
                                             result(Schedule::Random, 1), result(Schedule::Random, 2)};
  EXPECT_EQ(results.size(), 4u);
  EXPECT_EQ(result(Schedule::Random, 1), result(Schedule::Random, 1)); // the same seed gives the same schedule again
}

TEST_F(BrokenKernels, ShuffleFromALaneThatTakesNoPart) {
  EXPECT_EQ(failure("absent_source", 32),
            errorAt("absent_source", "absent_source") + "thread 7: shuffle from a lane that takes no part\n");
}

TEST_F(BrokenKernels, LaneThatIsNoMemberOfItsCollective) {
  EXPECT_EQ(failure("not_a_member", 32),
            errorAt("not_a_member", "not_a_member") +
                "thread 8: expected its own lane among the lanes of the collective, got lanes 0x000000ff\n");
}

TEST_F(BrokenKernels, CollectiveOfAWarpThatIsNotWhole) {
  EXPECT_EQ(failure("needs_whole_warps", 48),
            errorAt("needs_whole_warps", "needs_whole_warps") +
                "thread 32: expected a collective of the 16 threads of its warp, got lanes 0xffffffff\n");
}

TEST_F(BrokenKernels, ReductionOverLanesThatTakeNoPart) {
  EXPECT_EQ(failure("reduces_over_too_few", 32), errorAt("reduces_over_too_few", "reduces_over_too_few") +
                                                     "thread 3: reduction over lanes of which some take no part\n");
}

TEST_F(BrokenKernels, ProductsOfAWarpgroup) {
  dynamicBytes = 2048;
  const std::string product = "product of a warpgroup: expected ";
  EXPECT_EQ(failure("sums_without_wait", 128),
            errorAt("sums_without_wait", "sums_without_wait") +
                "thread 127: sums of a warpgroup: expected a wait for their products\n");
  EXPECT_EQ(failure("product_without_fence", 128), errorAt("product_without_fence", "product_without_fence") +
                                                       "thread 127: " + product +
                                                       "fenceProducts() since the last wait\n");
  EXPECT_EQ(failure("operand_at_an_odd_row", 128), errorAt("operand_at_an_odd_row", "operand_at_an_odd_row") +
                                                       "thread 0: " + product +
                                                       "a right operand that begins at a multiple of 8 rows\n");
  EXPECT_EQ(failure("several_operands", 128), errorAt("several_operands", "several_operands") +
                                                  "thread 127: " + product + "one right operand, got several\n");
  EXPECT_EQ(failure("several_operands", 96), errorAt("several_operands", "several_operands") +
                                                 "thread 0: expected a warpgroup of 128 threads, got 96\n");
}

TEST_F(BrokenKernels, ThreadsOfAWarpgroupPart) {
  dynamicBytes = 2048;
  EXPECT_EQ(failure("warp_leaves_warpgroup", 128), errorAt("warp_leaves_warpgroup", "warp_leaves_warpgroup") +
                                                       "threads 0-63 wait here, but thread 64 has left the kernel\n");
  EXPECT_EQ(failure("two_warpgroup_collectives", 128),
            errorAt("two_warpgroup_collectives second", "two_warpgroup_collectives") +
                "thread 64 takes part in this collective, but others of its warpgroup wait at another one\n" +
                noteAt("two_warpgroup_collectives first") + "threads 0-63 are here\n");
}

TEST_F(BrokenKernels, ProductOfMemoryThatNothingHasWritten) {
  dynamicBytes = 2048;
  auto out = bufferOf(std::vector<float>(64));
  std::string error =
      printed(launch(kernelLibrary("broken", /*checkAccesses=*/true).kernel("product_of_nothing"), {1}, 128, {}, out));
  EXPECT_NE(error.find("reads shared memory that nothing has written"), std::string::npos) << error;
}

TEST_F(BrokenKernels, MoreSharedMemoryThanThereIs) {
  EXPECT_EQ(failure("much_static_shared", 1), errorAt("much_static_shared", "much_static_shared") +
                                                  "expected at most 49152 bytes of static shared memory, got "
                                                  "a variable of 49156 bytes (aligned to 16) "
                                                  "more\n");
  dynamicBytes = 128;
  EXPECT_EQ(failure("much_dynamic_shared", 1),
            errorAt("much_dynamic_shared", "much_dynamic_shared") +
                "expected a launch with at least 132 bytes of dynamic shared memory, got 128\n");
}

TEST_F(BrokenKernels, TheFirstBlockThatFailsIsReported) {
  forEachSchedule([&](const LaunchOptions &options) {
    if (options.schedule == Schedule::Random)
      return;
    std::string text = failure("fails_from_block_3_on", 2, options, {100});
    StringRef block = options.schedule == Schedule::InOrder ? "block (3,0,0)" : "block (99,0,0)";
    EXPECT_EQ(text, place("fails_from_block_3_on") + ("error: kernel fails_from_block_3_on: " + block).str() +
                        ": thread 0 waits here, but thread 1 has left the kernel\n");
  });
}

TEST_F(BrokenKernels, GridsMayBeAsLargeAsOnAGpu) {
  for (auto [schedule, block] : {std::pair(Schedule::InOrder, 3), std::pair(Schedule::Reversed, 0x7ffffffe)})
    EXPECT_EQ(failure("fails_from_block_3_on", 2, {schedule}, {0x7fffffff}),
              place("fails_from_block_3_on") +
                  formatv("error: kernel fails_from_block_3_on: block ({0},0,0): thread 0 waits here, but thread 1 has "
                          "left the kernel\n",
                          block)
                      .str());
}

TEST_F(BrokenKernels, ALauncherWorksAfterAFailure) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(failure("leaves_early", 64), "");
    EXPECT_EQ(failure("missing_barrier", 64), "");
  }
}

//===----------------------------------------------------------------------===//
// Races, in kernels compiled with checked accesses.
//===----------------------------------------------------------------------===//

// The compiler must not leave out the check of an access because the same place was checked before a primitive.
TEST_F(BrokenKernels, SecondWriteToAPlace) {
  auto out = bufferOf(std::vector<uint32_t>(64));
  const EmulatedKernel &kernel = kernelLibrary("broken", /*checkAccesses=*/true).kernel("second_write");
  EXPECT_EQ(printed(launch(kernel, {1}, 64, {}, out)),
            errorAt("second_write read", "second_write") +
                "thread 40 reads shared memory that thread 0 has written since the last barrier\n" +
                noteAt("second_write") + "the other access is here\n");
}

TEST_F(BrokenKernels, AtomicAccessesRaceWithPlainOnes) {
  auto race = [&](StringRef kernel, StringRef message, Schedule schedule, StringRef here, StringRef there) {
    auto out = bufferOf(std::vector<uint64_t>(64));
    EXPECT_EQ(printed(launch(kernelLibrary("broken", /*checkAccesses=*/true).kernel(kernel), {1}, 64, {schedule}, out)),
              errorAt((kernel + " " + here).str(), kernel) + message.str() + " since the last barrier\n" +
                  noteAt((kernel + " " + there).str()) + "the other access is here\n");
  };
  race("atomic_and_read", "thread 40 reads shared memory that thread 1 has atomically changed", Schedule::InOrder,
       "plain", "atomic");
  race("atomic_and_read", "thread 1 atomically changes shared memory that thread 40 has read", Schedule::Reversed,
       "atomic", "plain");
  race("atomic_and_write", "thread 40 writes shared memory that threads of several warps have atomically changed",
       Schedule::InOrder, "plain", "atomic");
  race("atomic_and_write", "thread 33 atomically changes shared memory that thread 40 has written", Schedule::Reversed,
       "atomic", "plain");
}

TEST_F(BrokenKernels, AtomicAccessesDoNotRaceWithEachOther) {
  forEachSchedule([&](const LaunchOptions &options) {
    auto out = buffer<float>(64);
    const EmulatedKernel &kernel = kernelLibrary("broken", /*checkAccesses=*/true).kernel("only_atomics");
    EXPECT_EQ(printed(launch(kernel, {1}, 64, options, out)), "");
    EXPECT_EQ(out.copy(), std::vector<float>(64, 64 + 63 * 32 + 32));
  });
}

TEST_F(BrokenKernels, AtomicAccessesReadAndWrite) {
  auto expectError = [&](StringRef kernel, ArrayRef<TensorRange> tensors, StringRef message, uint32_t *out) {
    const EmulatedKernel &broken = kernelLibrary("broken", /*checkAccesses=*/true).kernel(kernel);
    EXPECT_EQ(printed(launcher.launch(broken, {1}, {64}, 0, {&out}, {}, tensors)),
              errorAt(kernel, kernel) + "thread " + message.str() + "\n");
  };
  auto zeros = bufferOf(std::vector<uint32_t>(64));
  auto nothing = buffer<uint32_t>(65);
  auto range = [](auto &buffer, StringRef name, bool isWritten) {
    return TensorRange{reinterpret_cast<const char *>(buffer.data), 4 * buffer.size, name.str(), isWritten};
  };
  expectError("atomic_of_nothing", {}, "0 atomically changes shared memory that nothing has written", zeros.data);
  expectError("atomic_overrun", range(zeros, "%x", true),
              "63 atomically changes 4 bytes outside '%x' (256 bytes), at offset 256", zeros.data);
  expectError("atomic_overrun", range(zeros, "%x", false), "0 atomically changes '%x', which is an input of the kernel",
              zeros.data);
  expectError("atomic_overrun", range(nothing, "%x", true),
              "0 atomically changes what nothing has written, in '%x' at offset 4", nothing.data);
}

TEST_F(BrokenKernels, ReadOfWhatAnEarlierKernelOfTheCallWrites) {
  const KernelLibrary &broken = kernelLibrary("broken", /*checkAccesses=*/true);
  auto run = [&](int first, bool startsAfterAll, unsigned threads) {
    auto out = bufferOf(std::vector<float>(64));
    LaunchOptions options = {.threads = threads};
    EXPECT_EQ(printed(launch(broken.kernel("writes_odd"), {1}, 32, options, out)), "");
    options.startsAfterAll = startsAfterAll;
    return printed(launch(broken.kernel("reads_ahead"), {1}, 32, options, out, first));
  };
  const std::string error = errorAt("reads_ahead", "reads_ahead") +
                            "thread 0 reads 'buffer' before waitForDependencies(), where an earlier kernel of the call "
                            "has written\n";
  for (unsigned threads : {1u, 0u}) {
    EXPECT_EQ(run(1, /*startsAfterAll=*/false, threads), error);
    EXPECT_EQ(run(0, /*startsAfterAll=*/false, threads), "");
    EXPECT_EQ(run(1, /*startsAfterAll=*/true, threads), "");
  }
}

/// Whatever earlier kernels do with the tensor.
TEST_F(BrokenKernels, WriteBeforeTheWaitForEarlierKernels) {
  const KernelLibrary &broken = kernelLibrary("broken", /*checkAccesses=*/true);
  auto run = [&](StringRef kernel, bool startsAfterAll) {
    auto out = bufferOf(std::vector<float>(64));
    return printed(launch(broken.kernel(kernel), {1}, 32, {.startsAfterAll = startsAfterAll}, out));
  };
  EXPECT_EQ(run("writes_ahead", /*startsAfterAll=*/false),
            errorAt("writes_ahead", "writes_ahead") +
                "thread 0 writes 'buffer' before waitForDependencies(), while earlier kernels of the call may still "
                "need it\n");
  EXPECT_EQ(run("writes_ahead", /*startsAfterAll=*/true), "");
  EXPECT_EQ(run("counts_ahead", /*startsAfterAll=*/false), "");
}

//===----------------------------------------------------------------------===//
// Accesses outside of arrays. Kernels compiled with checked accesses report reads and writes at once. In other kernels,
// guards reveal a write some time later; AddressSanitizer ends the program at the access.
//===----------------------------------------------------------------------===//

TEST_F(BrokenKernels, CheckedAccessOutsideMemory) {
  auto expectError = [&](StringRef kernel, StringRef message) {
    auto out = bufferOf(std::vector<float>(64));
    EXPECT_EQ(printed(launch(kernelLibrary("broken", /*checkAccesses=*/true).kernel(kernel), {1}, 64, {}, out)),
              errorAt(kernel, kernel) + message.str() + "\n");
  };
  dynamicBytes = 256;
  // If the array's bounds are known, UndefinedBehaviorSanitizer reports first, see below.
  if (!hasAddressSanitizer) {
    expectError("shared_overrun", "thread 63 writes 4 bytes outside static shared memory (256 bytes), at offset 256");
    expectError("shared_overread", "thread 63 reads 4 bytes outside static shared memory (256 bytes), at offset 256");
  }
  expectError("dynamic_shared_overrun",
              "thread 63 writes 4 bytes outside dynamic shared memory (256 bytes), at offset 256");
  expectError("global_overrun", "thread 63 writes 4 bytes outside 'buffer' (256 bytes), at offset 256");
  expectError("global_overread", "thread 63 reads 4 bytes outside 'buffer' (256 bytes), at offset 256");
  expectError("global_underrun", "thread 0 writes 4 bytes outside 'buffer' (256 bytes), at offset -4");
}

#if defined(KILN_ADDRESS_SANITIZER)

TEST_F(BrokenKernels, AccessOutsideMemoryEndsTheProgramAtItsLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  dynamicBytes = 256;
  for (StringRef kernel : {"shared_overrun", "shared_overread", "dynamic_shared_overrun", "global_overrun",
                           "global_overread", "global_underrun"}) {
    std::string frame = " in " + kernel.str() + " .*/" + StringRef(place(kernel)).rtrim(": ").str();
    EXPECT_DEATH(failure(kernel, 64, {Schedule::InOrder, 0, false, 1}), frame);
  }
}

#else

TEST_F(BrokenKernels, WriteOutsideSharedMemory) {
  EXPECT_EQ(failure("shared_overrun", 64),
            errorAt("shared_overrun after", "shared_overrun") +
                "thread 63 wrote outside static shared memory (256 bytes), at offset 256, before it came here\n" +
                noteAt("shared_overrun before") + "thread 63 is here\n");
  dynamicBytes = 256;
  EXPECT_EQ(failure("dynamic_shared_overrun", 64),
            errorAt("dynamic_shared_overrun before", "dynamic_shared_overrun") +
                "thread 63 wrote outside dynamic shared memory (256 bytes), at offset 256, after it was here "
                "for the "
                "last time\n");
}

TEST_F(BrokenKernels, WriteOutsideGlobalMemory) {
  EXPECT_EQ(failure("global_overrun", 32, {}, {2}),
            "broken.cu: error: kernel global_overrun: wrote outside 'buffer' (256 bytes), at offset 256\n");
  EXPECT_EQ(failure("global_underrun", 64),
            "broken.cu: error: kernel global_underrun: wrote outside 'buffer' (256 bytes), at offset -4\n");
}

TEST_F(BrokenKernels, StackOverflow) {
  EXPECT_EQ(failure("deep_stack", 64),
            errorAt("deep_stack", "deep_stack") +
                "thread 0 needs more than the 65536 bytes of stack that an emulated thread has\n");
  EXPECT_EQ(failure("deep_call", 64), "broken.cu: error: kernel deep_call: block (0,0,0): thread 0 needs "
                                      "more than the 65536 bytes of stack that "
                                      "an emulated thread has\n");
}

#endif

} // namespace
} // namespace kiln
