// templates/row_mail.cuh: what blocks compute for each other, in launches of one step that follow each other; and that
// mistakes in it show.

#include "emulated/Fixture.h"

namespace kiln {
namespace {

class RowMail : public EmulatedTest {
protected:
  static constexpr int rows = 9;
  Buffer<float> x = buffer<float>(rows);
  Buffer<uint64_t> mail = bufferOf(std::vector<uint64_t>(2 * (rows + 1)));

  /// A launch on other values; what it says, and whether each block has got all rows.
  struct Result {
    std::string message;
    bool isRight = true;
  };
  Result launchOn(StringRef kernel, uint32_t blocks, bool isChecked, LaunchOptions options, bool cooperative = true) {
    for (int row = 0; row < rows; ++row)
      x[row] += static_cast<float>(row + 1);
    options.cooperative = cooperative;
    auto out = buffer<float>(size_t{32} * blocks);
    Result result;
    result.message =
        printed(launch(kernelLibrary("row_mail", isChecked).kernel(kernel), {blocks}, 64, options, x, mail, out, rows));
    for (size_t i = 0; i < out.size && result.message.empty(); ++i) {
      const int row = std::min<int>(static_cast<int>(i % 32), rows - 1);
      result.isRight &= out[i] == x[row] + 1000.0F * static_cast<float>(row);
    }
    return result;
  }

  void SetUp() override { std::fill(x.data, x.data + x.size, 0.0F); }
};

TEST_F(RowMail, HasTheRowsOfEachLaunchOnAnyNumberOfBlocks) {
  for (bool isChecked : {false, true})
    forEachSchedule([&](const LaunchOptions &options) {
      for (uint32_t blocks : {3, 1, 6, 12, 2})
        for (bool cooperative : {true, false}) {
          const Result result = launchOn("shares_rows", blocks, isChecked, options, cooperative);
          EXPECT_EQ(result.message, "");
          EXPECT_TRUE(result.isRight) << blocks << " blocks";
        }
    });
}

TEST_F(RowMail, AStampForAllLaunchesShowsOldRows) {
  EXPECT_TRUE(launchOn("one_stamp_for_all", 3, false, {}).isRight);
  EXPECT_FALSE(launchOn("one_stamp_for_all", 3, false, {}).isRight);
}

TEST_F(RowMail, ARowThatNobodySendsIsWaitedForInVain) {
  const std::string message = launchOn("row_left_out", 3, false, {}).message;
  EXPECT_NE(message.find("waits here for a write that no thread makes"), std::string::npos) << message;
  // Blocks that see nothing of each other compute it themselves.
  EXPECT_TRUE(launchOn("row_left_out", 3, false, {}, /*cooperative=*/false).isRight);
}

TEST_F(RowMail, AStampIsReadBehindTheWaitForIt) {
  const std::string message = launchOn("stamp_too_early", 3, /*isChecked=*/true, {Schedule::Reversed}).message;
  EXPECT_NE(message.find("reads shared memory that nothing has written"), std::string::npos) << message;
}

TEST_F(RowMail, BlocksOfALaunchThatDoNotAddUpDisagree) {
  EXPECT_TRUE(launchOn("blocks_do_not_add_up", 3, false, {}).isRight);
  // Behind three blocks, the first of two takes the stamp of one launch and the second that of the next.
  const std::string message = launchOn("blocks_do_not_add_up", 2, false, {}).message;
  EXPECT_NE(message.find("waits here for a write that no thread makes"), std::string::npos) << message;
}

} // namespace
} // namespace kiln
