// Each kernel of kernels/broken_copies.cu has one error, which must be reported at its line.

#include "emulated/Fixture.h"

#include "device/tensor_copy.cuh"

namespace kiln {
namespace {

class BrokenCopies : public EmulatedTest {
protected:
  static std::string errorAt(StringRef mark, StringRef kernel) { return errorIn("broken_copies", mark, kernel); }
  static std::string noteAt(StringRef mark) { return placeIn("broken_copies", mark) + "note: "; }

  template <class... Args>
  std::string failure(StringRef kernel, uint32_t block, const LaunchOptions &options, const Args &...args) {
    return printed(
        launch(kernelLibrary("broken_copies", /*checkAccesses=*/true).kernel(kernel), {1}, block, options, args...));
  }

  /// Rows of 384 elements of 16 bits, which are 1, with boxes of 64 by `rows`.
  TensorMap mapOf(u32 rows) {
    TensorMap map;
    map.data = bufferOf(std::vector<uint16_t>(size_t{rows} * 384, 0x3f80)).data;
    map.strides[0] = 384 * 2;
    map.extents[0] = 384, map.extents[1] = rows;
    map.box[0] = 64, map.box[1] = rows;
    map.rank = 2;
    map.elementBytes = 2;
    return map;
  }

  std::string ring(StringRef kernel, const LaunchOptions &options) {
    return failure(kernel, 256, options, mapOf(64), mapOf(32), buffer<float>(128));
  }
  /// One of the errors that a fault of the ring shows as: the mark of its line, a part of its message, and its note.
  struct Shown {
    StringRef mark;
    std::string message, note;
  };
  /// Expects one of these, under every schedule; no error if the mark is empty.
  void expectRing(StringRef kernel, const std::vector<Shown> &errors) {
    forEachSchedule([&](const LaunchOptions &options) {
      const std::string text = ring(kernel, options);
      EXPECT_TRUE(llvm::any_of(errors, [&](const Shown &shown) {
        if (shown.mark.empty())
          return text.empty();
        return StringRef(text).starts_with(errorAt(shown.mark, kernel)) && StringRef(text).contains(shown.message) &&
               StringRef(text).ends_with(shown.note);
      })) << text;
    });
  }

  std::string copy(StringRef kernel, const TensorMap &map, const LaunchOptions &options = {}) {
    return failure(kernel, 64, options, map);
  }
  /// The error of thread 0, under every schedule.
  void expectCopy(StringRef kernel, StringRef message) {
    forEachSchedule([&](const LaunchOptions &options) {
      EXPECT_EQ(copy(kernel, mapOf(32), options),
                errorAt(kernel, kernel) +
                    ("thread 0" + Twine(message.starts_with(":") ? "" : " ") + message + "\n").str());
    });
  }

  std::string barrier(StringRef kernel, uint32_t block, const LaunchOptions &options = {}) {
    return failure(kernel, block, options, buffer<uint32_t>(8));
  }
};

constexpr const char *aCopyWrites = " reads shared memory that a copy writes, without a wait for the copy's barrier\n";
constexpr const char *otherAccess = "the other access is here\n";

TEST_F(BrokenCopies, TheWholeRingHasNoFault) { expectRing("ring", {{"", "", ""}}); }

TEST_F(BrokenCopies, MissingWaits) {
  // The products may come before the copies have begun.
  expectRing("no_wait_for_full", {{"product", aCopyWrites, noteAt("copy b") + otherAccess},
                                  {"product", " reads shared memory that nothing has written\n", ""}});
  expectRing("no_wait_for_empty", {{"expect",
                                    "thread 0 arrives at a barrier whose phase has had all its arrivals (1), and waits "
                                    "for 12288 bytes only\n",
                                    ""}});
  // Which of the two accesses comes first depends on the schedule.
  expectRing(
      "waits_for_its_copies",
      {{"copy a", " has read since the last barrier\n", noteAt("product") + otherAccess},
       {"product", aCopyWrites, noteAt("copy b") + otherAccess},
       {"full", " waits for the wrong phase: for parity 0 of a barrier of which 2 phases are complete, when it", ""}});
  expectRing("no_wait_for_products", {{"receive", ": sums of a warpgroup: expected a wait for their products\n", ""}});
}

TEST_F(BrokenCopies, WaitForTheWrongPhase) {
  expectRing(
      "same_parity",
      {{"copy a", " has read since the last barrier\n", noteAt("product") + otherAccess},
       {"product", aCopyWrites, noteAt("copy b") + otherAccess},
       {"full", " waits for the wrong phase: for parity 0 of a barrier of which 2 phases are complete, when it", ""}});
  forEachSchedule([&](const LaunchOptions &options) {
    EXPECT_EQ(barrier("phase_that_is_passed", 64, options),
              errorAt("phase_that_is_passed", "phase_that_is_passed") +
                  "thread 32 waits for the wrong phase: for parity 0 of a barrier of which 2 phases are complete, when "
                  "it can know of 0 only\n");
  });
}

TEST_F(BrokenCopies, StageThatIsReleasedBeforeItsProductsAreComputed) {
  expectRing("early_arrival", {{"copy a", " has read since the last barrier\n", noteAt("product") + otherAccess},
                               {"product", aCopyWrites, noteAt("copy a") + otherAccess},
                               {"product", aCopyWrites, noteAt("copy b") + otherAccess}});
}

TEST_F(BrokenCopies, MissingArrivals) {
  expectRing("no_arrival", {{"empty", "thread 0 waits here for 4 more arrivals, which no thread and no copy brings\n",
                             noteAt("full") + "threads 128-255 wait here for 1 more arrival\n"}});
  EXPECT_EQ(barrier("no_arrival_of_some", 64),
            errorAt("no_arrival_of_some 0", "no_arrival_of_some") +
                "threads 0-39 wait here for 4 more arrivals, which no thread and no copy brings\n" +
                noteAt("no_arrival_of_some 40") + "threads 40-47 wait here for 4 more arrivals\n");
}

TEST_F(BrokenCopies, WrongNumberOfBytes) {
  expectRing("too_few_bytes", {{"copy b",
                                "thread 0 copies 4096 bytes to a barrier that expects 3072 more; arriveExpecting() "
                                "comes first\n",
                                ""}});
  expectRing("too_many_bytes", {{"full", "threads 128-255 wait here for 16 bytes, which no thread and no copy brings\n",
                                 noteAt("empty") + "thread 0 waits here for 4 more arrivals\n"}});
  expectCopy("copy_without_expecting",
             "copies 4096 bytes to a barrier that expects 0 more; arriveExpecting() comes first");
}

TEST_F(BrokenCopies, PlaceOfABox) {
  expectCopy("misaligned_box", ": expected a place in shared memory at a multiple of 1024 bytes");
  expectCopy("box_past_its_variable", "copies 4096 bytes to a place that is not all in one shared variable");
  EXPECT_EQ(copy("box_over_its_barrier", mapOf(32)), errorAt("box_over_its_barrier", "box_over_its_barrier") +
                                                         "thread 0 copies to a place where a barrier lies\n" +
                                                         noteAt("one box") + "it was initialised here\n");
}

TEST_F(BrokenCopies, PlaceOfBytes) {
  for (StringRef kernel : {"bytes_from_between", "odd_bytes"}) {
    const std::string error = copy(kernel, mapOf(32));
    EXPECT_TRUE(StringRef(error).starts_with(errorAt(kernel, kernel) + "thread 0: expected places at multiples of 16"))
        << error;
  }
  expectCopy("bytes_past_a_variable", "copies 4096 bytes to a place that is not all in one shared variable");
}

TEST_F(BrokenCopies, TensorOfABox) {
  expectCopy("box_outside", ": a box outside its tensor: (64, 32) elements at (384, 16), in a tensor of (384, 32)");
  auto expectFault = [&](StringRef message, function_ref<void(TensorMap &)> change) {
    TensorMap map = mapOf(32);
    change(map);
    EXPECT_EQ(copy("copy_of_any_map", map),
              errorAt("copy_of_any_map", "copy_of_any_map") + ("thread 0" + message + "\n").str());
  };
  expectFault(": expected a tensor map of rank 2, got 3", [](TensorMap &map) { map.rank = 3; });
  expectFault(": expected a box of 128 bytes in its first dimension, got 256",
              [](TensorMap &map) { map.elementBytes = 4; });
  expectFault(": expected a box of 1 to 256 places in each dimension, got 257",
              [](TensorMap &map) { map.box[1] = 257; });
  expectFault(": expected a tensor at a multiple of 16 bytes",
              [](TensorMap &map) { map.data = static_cast<const char *>(map.data) + 2; });
  expectFault(": expected strides that are multiples of 16 bytes, got 760",
              [](TensorMap &map) { map.strides[0] = 760; });
  expectFault(" reads 128 bytes outside 'buffer' (24576 bytes), at offset 24800",
              [](TensorMap &map) { map.strides[0] = 776 + 24; });
  expectFault(" reads what nothing has written, in 'fresh' at offset 0",
              [&](TensorMap &map) { map.data = buffer<uint16_t>(384 * 32, "fresh").data; });
}

TEST_F(BrokenCopies, KernelThatEndsTooEarly) {
  forEachSchedule([&](const LaunchOptions &options) {
    EXPECT_EQ(copy("copy_at_the_end", mapOf(32), options),
              errorAt("copy_at_the_end", "copy_at_the_end") +
                  "thread 0 starts a copy here, but no thread waits for it before the kernel ends\n");
  });
  expectCopy("expects_at_the_end", "makes a barrier expect bytes here, but the kernel ends when 512 bytes are to come");
}

TEST_F(BrokenCopies, CopiesAndPlainAccesses) {
  EXPECT_EQ(copy("copy_over_plain_reads", mapOf(32)), errorAt("copy_over_plain_reads read", "copy_over_plain_reads") +
                                                          "thread 40" + aCopyWrites + noteAt("copy_over_plain_reads") +
                                                          otherAccess);
  EXPECT_EQ(copy("copy_over_plain_reads", mapOf(32), {Schedule::Reversed}),
            errorAt("copy_over_plain_reads", "copy_over_plain_reads") +
                "thread 0 copies to shared memory that thread 40 has read since the last barrier\n" +
                noteAt("copy_over_plain_reads read") + otherAccess);
  EXPECT_EQ(copy("write_over_its_own_copy", mapOf(32)),
            errorAt("write_over_its_own_copy", "write_over_its_own_copy") +
                "thread 0 writes shared memory that a copy writes, without a wait for the copy's barrier\n" +
                noteAt("write_over_its_own_copy copy") + otherAccess);
}

TEST_F(BrokenCopies, BarriersThatAreNotInitialised) {
  auto expectError = [&](StringRef kernel, const Twine &message, StringRef initialised = "") {
    std::string note = initialised.empty() ? "" : noteAt(initialised) + "it was initialised here\n";
    EXPECT_EQ(barrier(kernel, 64), errorAt(kernel, kernel) + ("thread " + message + "\n" + note).str());
  };
  expectError("no_initialisation", "0 uses a barrier that nothing has initialised, or that something has overwritten");
  expectError("overwritten_barrier",
              "62 uses a barrier that nothing has initialised, or that something has overwritten");
  expectError("no_block_barrier", "32 uses a barrier that thread 0 has initialised since the last barrier of the block",
              "no_block_barrier init");
  expectError("no_fence", "63 uses a barrier that thread 0 has initialised without fenceBarriers()", "no_fence init");
  expectError("initialised_twice", "0 initialises a barrier that is in use", "initialised_twice first");
  expectError("too_many_arrivals",
              "33 arrives at a barrier whose phase has had all its arrivals (1), and waits for 1024 bytes only");
}

TEST_F(BrokenCopies, AccessesThatABarrierDoesNotOrder) {
  forEachSchedule([&](const LaunchOptions &options) {
    EXPECT_EQ(barrier("no_reader_is_missing", 128, options), "");
    // The reader that does not arrive races with the next write, whichever comes first.
    std::string missing = barrier("one_reader_is_missing", 128, options);
    StringRef kernel = "one_reader_is_missing";
    const bool isAtRead = StringRef(missing).starts_with(placeIn("broken_copies", "read"));
    EXPECT_EQ(missing, isAtRead
                           ? errorAt("read", kernel) +
                                 "thread 96 reads shared memory that thread 0 has written since the last barrier\n" +
                                 noteAt("write") + otherAccess
                           : errorAt("write", kernel) +
                                 "thread 0 writes shared memory that thread 96 has read since the last barrier\n" +
                                 noteAt("read") + otherAccess);
    EXPECT_EQ(barrier("write_after_arrival", 64, options),
              errorAt("write_after_arrival read", "write_after_arrival") +
                  "thread 32 reads shared memory that thread 0 has written since the last barrier\n" +
                  noteAt("write_after_arrival write") + otherAccess);
  });
}

TEST_F(BrokenCopies, RegistersOfSomeWarps) {
  EXPECT_EQ(barrier("registers_of_some", 128), errorAt("registers_of_some", "registers_of_some") +
                                                   "threads 0-63 wait here, but thread 64 has left the kernel\n");
}

} // namespace
} // namespace kiln
