// Exchanges between ranks, each in a thread of its own as on a GPU of its own, under every schedule; and mistakes.

#include "emulated/RankFixture.h"

#include <cmath>

namespace kiln {
namespace {

class RankTest : public RankFixture {
protected:
  RankTest() { kernelLibrary("ranks", /*checkAccesses=*/true); } // before there are several threads

  /// Launches a kernel of ranks.cu; the arguments follow its own.
  template <class... Args>
  Error launchOn(StringRef kernel, uint32_t blocks, const LaunchOptions &how, const Args &...args) {
    EmulatedLauncher own(&memory);
    LaunchOptions options = how;
    options.cooperative = true;
    options.rankPatience = patience;
    std::vector<void *> pointers = {const_cast<Args *>(&args)...};
    return own.launch(kernelLibrary("ranks", /*checkAccesses=*/true).kernel(kernel), {blocks}, {64}, sharedBytes,
                      pointers, options);
  }

  /// Expects that only rank 1 fails, at the line of the kernel's mark. It runs after the others, which wait for nobody,
  /// so that it finds all that they write.
  void expectFailure(StringRef kernel, const Twine &message) {
    patience = 0.3;
    auto out = buffer<float>(64);
    uint32_t *stopped = stop.data;
    for (int rank : {0, 2})
      EXPECT_EQ(printed(launchOn(kernel, 1, {}, out.data, inboxes, stopped, rank)), "");
    std::string error = printed(launchOn(kernel, 1, {}, out.data, inboxes, stopped, 1));
    EXPECT_TRUE(StringRef(error).starts_with(placeIn("ranks", kernel))) << error;
    EXPECT_TRUE(StringRef(error).contains(message.str())) << error;
  }

  /// So many elements of each rank; and memory for results.
  PerRank<const float *> partsOf(int count) {
    PerRank<const float *> x;
    for (size_t rank = 0; rank < ranks; ++rank) {
      auto own = buffer<float>(static_cast<size_t>(count));
      for (int i = 0; i < count; ++i)
        own[static_cast<size_t>(i)] = 0.1f * static_cast<float>(i % 1009 + static_cast<int>(rank) * 1000);
      x[rank] = own.data;
    }
    return x;
  }
  PerRank<float *> resultsOf(int count) {
    PerRank<float *> out;
    for (float *&own : out)
      own = buffer<float>(static_cast<size_t>(count)).data;
    return out;
  }

  static constexpr uint32_t sharedBytes = 1 << 14; ///< of a block
};

constexpr const char *nothingCame = "waits here for another rank, which has written nothing for ";

TEST_F(RankTest, SumsOfAllRanks) {
  forEachSchedule([&](const LaunchOptions &options) {
    for (int count : {2, 130, 1000}) {
      PerRank<const float *> x = partsOf(count);
      PerRank<float *> out = resultsOf(count);
      uint32_t *stopped = stop.data;
      std::vector<std::string> errors = onAllRanks([&](int rank) {
        auto own = static_cast<size_t>(rank);
        return launchOn("sums", 3, options, x[own], out[own], inboxes, stopped, rank, count);
      });
      EXPECT_EQ(errors, std::vector<std::string>(ranks));
      for (size_t rank = 0; rank < ranks; ++rank)
        for (int i = 0; i < count; ++i) // in the order of the ranks: the same bits on all of them
          ASSERT_EQ(out[rank][i], x[0][i] + x[1][i] + x[2][i]) << i;
    }
  });
}

/// Fewer rows than ranks, and numbers that neither ranks nor blocks divide.
TEST_F(RankTest, SumsOfRowsAndTheirStatistics) {
  constexpr int cols = 264;
  forEachSchedule([&](const LaunchOptions &options) {
    for (int rows : {1, 2, 7, 31}) {
      PerRank<const float *> x = partsOf(rows * cols);
      PerRank<float *> means[3], deviations[3];
      const StringRef kernels[] = {"copied_slices", "loaded_slices", "exchanged_rows"};
      for (auto [kernel, mean, rstd] : llvm::zip(kernels, means, deviations)) {
        PerRank<float *> out = resultsOf(rows * cols);
        mean = resultsOf(rows);
        rstd = resultsOf(rows);
        uint32_t *stopped = stop.data;
        std::vector<std::string> errors =
            onAllRanks([&, &mean = mean, &rstd = rstd, &kernel = kernel](int rank) -> Error {
              for (int time = 0; time < 2; ++time)
                if (Error error = launchOn(kernel, 2, options, x, out, mean, rstd, inboxes, stopped, rank, rows))
                  return error;
              return Error::success();
            });
        EXPECT_EQ(errors, std::vector<std::string>(ranks)) << kernel.str();
        for (size_t rank = 0; rank < ranks; ++rank)
          for (int row = 0; row < rows; ++row) {
            double sum = 0, squares = 0;
            for (int i = row * cols; i < (row + 1) * cols; ++i) {
              ASSERT_EQ(out[rank][i], x[0][i] + x[1][i] + x[2][i]) << kernel.str() << ' ' << i;
              sum += out[rank][i];
            }
            for (int i = row * cols; i < (row + 1) * cols; ++i)
              squares += (out[rank][i] - sum / cols) * (out[rank][i] - sum / cols);
            EXPECT_NEAR(mean[rank][row], sum / cols, 1e-5 * sum / cols);
            EXPECT_NEAR(rstd[rank][row], 1 / std::sqrt(squares / cols + 1), 1e-5);
            // The same bits by each kernel and on each rank.
            EXPECT_EQ(mean[rank][row], means[0][0][row]) << kernel.str();
            EXPECT_EQ(rstd[rank][row], deviations[0][0][row]) << kernel.str();
          }
      }
    }
  });
}

/// Two launches in a row, of which the second writes other shares to the same place: a rank has all of the first when
/// its launch ends, and until it launches again. Some ranks come late, so that others would be ahead that did not wait.
TEST_F(RankTest, SharesSideBySideOnAllRanks) {
  constexpr int cols[] = {6, 4, 2}, firstCols[] = {0, 6, 10}, allCols = 12;
  auto element = [](int time, int rank, int i) { return static_cast<float>(1000000 * time + 100000 * rank + i); };
  auto comeLate = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  forEachSchedule([&](const LaunchOptions &options) {
    for (int rows : {1, 37, 300}) {
      PerRank<float *> x[2], out = resultsOf(rows * allCols);
      for (int time : {0, 1})
        for (int rank : {0, 1, 2}) {
          float *&own = x[time][static_cast<size_t>(rank)];
          own = buffer<float>(static_cast<size_t>(rows * cols[rank])).data;
          for (int i = 0; i < rows * cols[rank]; ++i)
            own[i] = element(time, rank, i);
        }
      PerRank<std::vector<float>> seen[2];
      uint32_t *stopped = stop.data;
      std::vector<std::string> errors = onAllRanks([&](int rank) -> Error {
        const auto own = static_cast<size_t>(rank);
        for (int time : {0, 1}) {
          if (rank == 2)
            comeLate();
          if (Error error = launchOn("shares", 3, options, x[time][own], out, inboxes, stopped, rank, rows))
            return error;
          if (rank == 0)
            comeLate();
          seen[time][own].assign(out[own], out[own] + rows * allCols);
        }
        return Error::success();
      });
      EXPECT_EQ(errors, std::vector<std::string>(ranks));
      for (int time : {0, 1})
        for (const std::vector<float> &whole : seen[time])
          for (int rank : {0, 1, 2})
            for (int i = 0; i < rows * cols[rank]; ++i)
              ASSERT_EQ(whole[static_cast<size_t>(i / cols[rank] * allCols + firstCols[rank] + i % cols[rank])],
                        element(time, rank, i));
    }
  });
}

TEST_F(RankTest, BlocksOfAllRanksPostAndCount) {
  forEachSchedule([&](const LaunchOptions &options) {
    for (char *inbox : inboxes)
      std::memset(inbox, 0, 1024);
    PerRank<float *> out;
    for (float *&own : out)
      own = buffer<float>(6).data;
    uint32_t *stopped = stop.data;
    std::vector<std::string> errors = onAllRanks([&](int rank) {
      return launchOn("counted", 3, options, inboxes, out[static_cast<size_t>(rank)], stopped, rank);
    });
    EXPECT_EQ(errors, std::vector<std::string>(ranks));
    for (float *own : out)
      for (int block = 0; block < 3; ++block) { // of the fourth time, from 9 blocks
        EXPECT_EQ(own[2 * block], 36.0f);
        EXPECT_EQ(own[2 * block + 1], 36.0f);
      }
  });
}

TEST_F(RankTest, FindsABlockThatDoesNotCountItself) {
  patience = 5; // a rank may come late on a busy machine, and is not what the others wait for then
  auto out = buffer<float>(6);
  uint32_t *stopped = stop.data;
  std::vector<std::string> errors =
      onAllRanks([&](int rank) { return launchOn("forgotten", 3, {}, inboxes, out.data, stopped, rank); });
  for (const std::string &error : errors) {
    EXPECT_TRUE(StringRef(error).starts_with(placeIn("ranks", "forgotten"))) << error;
    EXPECT_TRUE(StringRef(error).contains(nothingCame)) << error;
  }
}

TEST_F(RankTest, FindsARankThatWritesNothing) { expectFailure("silent", nothingCame); }

TEST_F(RankTest, FindsAStampOfTheTimeBefore) { expectFailure("stale", nothingCame); }

TEST_F(RankTest, FindsAWordThatIsWrittenAgainBeforeItIsRead) { expectFailure("reused", nothingCame); }

/// Memory that nothing has written holds a pattern that checked accesses find.
TEST_F(RankTest, FindsPartsThatAreReadTooEarly) {
  PerRank<float *> x;
  for (float *&own : x)
    own = buffer<float>(1).data;
  auto out = buffer<float>(1);
  uint32_t *stopped = stop.data;
  std::string error = printed(launchOn("early", 1, {}, x, out.data, inboxes, stopped, 0));
  EXPECT_TRUE(StringRef(error).starts_with(placeIn("ranks", "early"))) << error;
}

TEST_F(RankTest, FindsPartsThatAreCopiedTooEarly) {
  PerRank<float *> x;
  for (float *&own : x)
    own = buffer<float>(4).data;
  auto out = buffer<float>(1);
  uint32_t *stopped = stop.data;
  std::string error = printed(launchOn("copied_early", 1, {}, x, out.data, inboxes, stopped, 0));
  EXPECT_TRUE(StringRef(error).starts_with(placeIn("ranks", "copied_early"))) << error;
}

TEST_F(RankTest, FindsARowThatIsCopiedOverOneThatIsRead) {
  PerRank<const float *> x = partsOf(3 * 264);
  auto out = buffer<float>(64);
  std::string error = printed(launchOn("asked_too_early", 1, {}, x, out.data));
  EXPECT_TRUE(StringRef(error).starts_with(placeIn("ranks", "asked_too_early"))) << error;
}

TEST_F(RankTest, FindsARankThatIsNotAtABarrier) {
  patience = 0.3;
  auto out = buffer<float>(1);
  uint32_t *stopped = stop.data;
  std::vector<std::string> errors =
      onAllRanks([&](int rank) { return launchOn("barrier", 1, {}, out.data, inboxes, stopped, rank); });
  EXPECT_TRUE(StringRef(errors[0]).contains(nothingCame)) << errors[0];
  EXPECT_TRUE(StringRef(errors[1]).contains(nothingCame)) << errors[1];
  EXPECT_EQ(errors[2], "");
}

/// A rank whose kernels wait in vain ends at once when the host says so.
TEST_F(RankTest, EndsWhenAnotherRankHasFailed) {
  auto out = buffer<float>(64);
  uint32_t *stopped = stop.data;
  std::thread host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    __atomic_store_n(stopped, 1, __ATOMIC_SEQ_CST);
  });
  std::string error = printed(launchOn("silent", 1, {}, out.data, inboxes, stopped, 1));
  host.join();
  EXPECT_TRUE(StringRef(error).contains("waits here for another rank, which has failed")) << error;
}

} // namespace
} // namespace kiln
