// Each kernel of kernels/broken_clusters.cu has one error, which must be reported at its line.

#include "emulated/Fixture.h"

#include "device/tensor_copy.cuh"

namespace kiln {
namespace {

class BrokenClusters : public EmulatedTest {
protected:
  /// An error of block 0 or 1 of the only cluster.
  static std::string errorAt(StringRef mark, StringRef kernel, int block, const Twine &message) {
    return placeIn("broken_clusters", mark) +
           ("error: kernel " + kernel + ": block (" + Twine(block) + ",0,0): " + message + "\n").str();
  }
  static std::string noteAt(StringRef mark, StringRef message) {
    return placeIn("broken_clusters", mark) + ("note: " + message + "\n").str();
  }

  std::string failure(StringRef kernel, LaunchOptions options = {}, bool isChecked = true) {
    options.cluster = 2;
    return printed(
        launch(kernelLibrary("broken_clusters", isChecked).kernel(kernel), {2}, 64, options, buffer<uint32_t>(8)));
  }
  /// The same of a kernel that copies a box of 8 rows.
  std::string boxFailure(StringRef kernel, LaunchOptions options) {
    TensorMap map;
    map.data = bufferOf(std::vector<float>(8 * 32, 1)).data;
    map.strides[0] = 128;
    map.extents[0] = 32, map.extents[1] = 8;
    map.box[0] = 32, map.box[1] = 8;
    map.rank = 2;
    map.elementBytes = 4;
    options.cluster = 2;
    return printed(launch(kernelLibrary("broken_clusters", /*checkAccesses=*/true).kernel(kernel), {2}, 64, options,
                          map, bufferOf(std::vector<uint32_t>(2))));
  }
  /// Expects one of these, under every schedule.
  void expectOneOf(StringRef kernel, ArrayRef<std::string> errors, bool isChecked = true) {
    forEachSchedule([&](const LaunchOptions &options) {
      const std::string text = failure(kernel, options, isChecked);
      EXPECT_TRUE(llvm::is_contained(errors, text)) << text;
    });
  }
  /// The same of kernels that need no checked accesses to be found wrong.
  void expectAlways(StringRef kernel, ArrayRef<std::string> errors) {
    for (bool isChecked : {false, true})
      expectOneOf(kernel, errors, isChecked);
  }
  /// An error that one block makes, or both and then either shows.
  void expectAt(StringRef kernel, ArrayRef<int> blocks, const Twine &message, StringRef notes = "") {
    std::vector<std::string> errors;
    for (int block : blocks)
      errors.push_back(errorAt(kernel, kernel, block, message) + notes.str());
    expectAlways(kernel, errors);
  }
};

constexpr const char *otherIsHere = "the other access is here";
constexpr const char *mayHaveEnded = ", which may have ended: nothing makes it wait for this";

TEST_F(BrokenClusters, BlocksThatMayNotHaveStarted) {
  for (StringRef kernel : {"no_sync_at_the_start", "arrival_without_a_sync_at_the_start"})
    forEachSchedule([&](const LaunchOptions &options) {
      const std::string text = failure(kernel, options);
      const bool isLoad = kernel == "no_sync_at_the_start";
      EXPECT_TRUE(StringRef(text).starts_with(placeIn("broken_clusters", kernel))) << text;
      EXPECT_TRUE(StringRef(text).contains(isLoad ? " reads the shared memory of block ("
                                                  : " uses a barrier in the shared memory of block ("))
          << text;
      EXPECT_TRUE(StringRef(text).ends_with(", which may not have started: syncCluster() comes first\n")) << text;
    });
}

TEST_F(BrokenClusters, BlocksThatMayHaveEnded) {
  expectAt("no_sync_at_the_end", {0}, Twine("thread 0 reads the shared memory of block (1,0,0)") + mayHaveEnded);
  expectAt("no_wait_at_the_end", {0}, Twine("thread 0 writes the shared memory of block (1,0,0)") + mayHaveEnded);
  expectAt("arrival_at_the_end", {0},
           Twine("thread 0 uses a barrier in the shared memory of block (1,0,0)") + mayHaveEnded);
}

TEST_F(BrokenClusters, AccessesThatNothingOrders) {
  auto errorsOf = [&](StringRef kernel, StringRef own, StringRef visit, StringRef ownVerb, StringRef ownHasDone,
                      StringRef visitVerb, StringRef visitHasDone) {
    return std::vector<std::string>{
        errorAt(visit, kernel, 0,
                "thread 0 " + visitVerb + " shared memory that thread 0 of block (1,0,0) has " + ownHasDone +
                    " since the last barrier") +
            noteAt(own, otherIsHere),
        errorAt(own, kernel, 1,
                "thread 0 " + ownVerb + " shared memory that thread 0 of block (0,0,0) has " + visitHasDone +
                    " since the last barrier") +
            noteAt(visit, otherIsHere)};
  };
  for (StringRef kernel : {"no_sync_before_a_load", "access_between_the_halves"})
    expectOneOf(kernel, errorsOf(kernel, (kernel + " write").str(), kernel, "writes", "written", "reads", "read"));
  expectOneOf("no_sync_after_a_store", errorsOf("no_sync_after_a_store", "no_sync_after_a_store read",
                                                "no_sync_after_a_store", "reads", "read", "writes", "written"));
  expectOneOf("barriers_of_blocks_only", errorsOf("barriers_of_blocks_only", "barriers_of_blocks_only own",
                                                  "barriers_of_blocks_only", "writes", "written", "writes", "written"));
}

TEST_F(BrokenClusters, BytesWithoutAWait) {
  forEachSchedule([&](const LaunchOptions &options) {
    const std::string text = failure("no_wait_for_bytes", options);
    const StringRef aCopyWrites = "thread 32 reads shared memory that a copy writes, without a wait for the copy's "
                                  "barrier";
    const std::string send = "no_wait_for_bytes", read = "no_wait_for_bytes read";
    std::vector<std::string> errors;
    for (int block : {0, 1}) {
      errors.push_back(errorAt(read, send, block, aCopyWrites) + noteAt(send, otherIsHere));
      errors.push_back(errorAt(send, send, block,
                               "thread 0 sends to shared memory that thread 32 of block (" + Twine(1 - block) +
                                   ",0,0) has read since the last barrier") +
                       noteAt(read, otherIsHere));
    }
    EXPECT_TRUE(llvm::is_contained(errors, text)) << text;
    // The reader arms and releases the word before it reads.
    EXPECT_EQ(failure("sent_in_turn", options), "");
  });
  expectOneOf("sent_too_early",
              {errorAt("send", "sent_too_early", 0,
                       "thread 0 sends to shared memory that thread 32 of block (1,0,0) has read since the last "
                       "barrier") +
                   noteAt("read", otherIsHere),
               errorAt("read", "sent_too_early", 1,
                       "thread 32 reads shared memory that a copy writes, without a wait for the copy's barrier") +
                   noteAt("send", otherIsHere)});
}

TEST_F(BrokenClusters, Places) {
  forEachSchedule([&](const LaunchOptions &options) {
    for (StringRef kernel : {"rank_outside", "address_in_global_memory"}) {
      const std::string text = failure(kernel, options);
      EXPECT_TRUE(StringRef(text).starts_with(placeIn("broken_clusters", kernel))) << text;
      EXPECT_TRUE(StringRef(text).ends_with(kernel == "rank_outside"
                                                ? ": expected the rank of one of the cluster's 2 blocks, got 2\n"
                                                : ": expected an address in the block's own shared memory\n"))
          << text;
    }
  });
  expectAt("load_past_its_variable", {0},
           "thread 0 reads 4 bytes outside static shared memory (288 bytes), at offset 288 of block (1,0,0)");
  expectAt("misaligned_store", {0}, "thread 0: misaligned vector access: expected an address aligned to its size");
  expectAt("bytes_over_a_barrier", {0}, "thread 0 sends to a place where a barrier lies",
           placeIn("broken_clusters", "init empty") + "note: it was initialised here\n");
  expectAt("barrier_of_another_block", {0}, "thread 0 sends to block (1,0,0), but to a barrier of block (0,0,0)");
}

TEST_F(BrokenClusters, WrongNumberOfBytes) {
  expectAt("too_many_bytes", {0},
           "thread 0 sends 8 bytes to a barrier that expects 4 more; arriveExpecting() comes first");
  expectAt("too_few_bytes", {1}, "threads 0-63 wait here for 4 bytes, which no thread and no copy brings",
           noteAt("too_few_bytes other", "threads 0-63 of block (0,0,0) are here"));
  expectAlways("expecting_late", {""});
  const std::string tooMany = "thread 0 sends 4 bytes to a barrier that expects 0 more; arriveExpecting() comes first";
  expectAlways("expecting_less",
               {errorAt("expecting late send", "expecting_less", 0, tooMany),
                errorAt("expecting late", "expecting_less", 1,
                        "thread 0 is the last to arrive at a barrier that expects 4 bytes then, but 8 are sent there") +
                    noteAt("expecting late send", "thread 0 of block (0,0,0) sends some of them here")});
  expectAlways("a_phase_ahead", {errorAt("a_phase_ahead", "a_phase_ahead", 0, tooMany),
                                 errorAt("a_phase_ahead", "a_phase_ahead", 0,
                                         "thread 0 sends bytes to a barrier of which 1 phases are complete, when it "
                                         "can know of 0 only")});
  expectAt("bytes_at_the_end", {1}, "thread 0 starts a copy here, but no thread waits for it before the kernel ends");
  expectAlways("expects_at_the_end",
               {errorAt("expecting", "expects_at_the_end", 0,
                        "thread 0 makes a barrier expect bytes here, but the kernel ends when 4 bytes are to come")});
}

TEST_F(BrokenClusters, BoxesForBothBlocks) {
  // What goes wrong first depends on which block runs ahead.
  const StringRef early = "without a wait for the copy's barrier", late = " has read since the last barrier";
  const StringRef unwritten = "reads shared memory that nothing has written";
  const StringRef ahead = "phases are complete, when it can know of 0 only";
  const StringRef arrivals = " arrives at a barrier whose phase has had all its arrivals";
  const StringRef bytes = " to a barrier that expects 0 more; arriveExpecting() comes first";
  const std::pair<StringRef, std::vector<StringRef>> kernels[] = {
      {"boxes_outside", {": expected ranks of the cluster's 2 blocks as bits, got 0x5"}},
      {"boxes_of_one", {bytes, unwritten}},
      {"boxes_without_a_wait", {late, ahead, bytes}},
      {"boxes_read_too_early", {early, unwritten}},
      {"boxes_read_too_late", {late}},
      {"boxes_of_an_old_phase", {"waits for the wrong phase: for parity 0", ahead, bytes}},
      {"boxes_for_old_readers", {early, arrivals}},
      {"boxes_at_the_end", {mayHaveEnded}},
  };
  forEachSchedule([&](const LaunchOptions &options) {
    EXPECT_EQ(boxFailure("boxes", options), "");
    for (const auto &[kernel, messages] : kernels) {
      const std::string text = boxFailure(kernel, options);
      EXPECT_TRUE(llvm::any_of(messages, [&](StringRef message) { return StringRef(text).contains(message); }))
          << kernel.str() << ": " << text;
    }
  });
}

TEST_F(BrokenClusters, BarriersOfOtherBlocks) {
  forEachSchedule([&](const LaunchOptions &options) {
    const std::string text = failure("wait_without_the_cluster", options);
    EXPECT_TRUE(StringRef(text).starts_with(placeIn("broken_clusters", "wait_without_the_cluster"))) << text;
    EXPECT_TRUE(
        StringRef(text).ends_with(": expected waitClusterBarrier(), as another block takes part in this barrier\n"))
        << text;
  });
  expectAt("no_fence_of_a_barrier", {0},
           "thread 0 uses a barrier that thread 0 of block (1,0,0) has initialised without fenceBarriers()",
           noteAt("no_fence_of_a_barrier init", "it was initialised here"));
  forEachSchedule([&](const LaunchOptions &options) {
    const std::string text = failure("barrier_initialised_too_late", options);
    EXPECT_TRUE(StringRef(text).starts_with(placeIn("broken_clusters", "barrier_initialised_too_late"))) << text;
    EXPECT_TRUE(
        StringRef(text).contains("thread 0 of block (1,0,0) has initialised since the last barrier of the cluster\n") ||
        StringRef(text).contains("uses a barrier that nothing has initialised"))
        << text;
  });
}

TEST_F(BrokenClusters, TheClustersBarrier) {
  for (StringRef kernel : {"arrives_twice", "waits_without_arriving"})
    forEachSchedule([&](const LaunchOptions &options) {
      const std::string text = failure(kernel, options);
      EXPECT_TRUE(StringRef(text).starts_with(placeIn("broken_clusters", kernel))) << text;
      EXPECT_TRUE(StringRef(text).ends_with(
          kernel == "arrives_twice" ? " arrives at the cluster's barrier twice, without waitCluster() in between\n"
                                    : " waits at the cluster's barrier without having arrived there\n"))
          << text;
    });
}

TEST_F(BrokenClusters, LanesOfAWarpWaitTogether) {
  EXPECT_EQ(failure("lanes_wait_apart"),
            errorAt("lanes_wait_apart 0", "lanes_wait_apart", 0,
                    "thread 0 takes part in this collective, but others of its warp wait at another one") +
                noteAt("lanes_wait_apart 16", "thread 31 is here"));
}

TEST_F(BrokenClusters, Deadlocks) {
  expectAlways("deadlock_of_blocks",
               {errorAt("deadlock_of_blocks 0", "deadlock_of_blocks", 0,
                        "threads 0-63 wait here for 1 more arrival, which no thread and no copy brings") +
                noteAt("deadlock_of_blocks 1", "threads 0-63 of block (1,0,0) are here")});
  expectAlways("barrier_without_some", {errorAt("barrier_without_some 0", "barrier_without_some", 0,
                                                "thread 32 waits here for threads that wait elsewhere") +
                                        noteAt("barrier_without_some 0", "threads 32-63 are here") +
                                        noteAt("barrier_without_some 1", "threads 0-31 are here") +
                                        noteAt("barrier_without_some 1", "threads 0-63 of block (1,0,0) are here")});
}

} // namespace
} // namespace kiln
