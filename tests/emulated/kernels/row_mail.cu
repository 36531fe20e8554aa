// Blocks that share operands of rows (row_mail.cuh), and what they do wrong; RowMailTest.cpp says what each must give.
#include "device/device.cuh"
#include "row_mail.cuh"

namespace kiln {

// The operands of a row: what it holds, and its index.
struct RowValues {
  const float *x;
  StampedValue *mail;
  static constexpr int kRowLanes = 32;
  struct RowOperands {
    float value, index;
  };
  template <int kLanes> KILN_DEVICE RowOperands rowOperands(int row) const {
    return {warpMax(x[row]), warpMax(float(row))};
  }
};

enum class Mistake { None, OneStampForAll, RowLeftOut, StampTooEarly, BlocksDoNotAddUp };

template <Mistake kMistake> KILN_DEVICE u32 stampOf(StampedValue *mail) {
  if (kMistake == Mistake::OneStampForAll)
    return 7;
  if (kMistake == Mistake::BlocksDoNotAddUp) { // a launch adds as much as it has blocks
    u64 count = 0;
    if (laneIndex() == 0)
      count = atomicAdd(reinterpret_cast<u64 *>(mail), u64(1));
    return u32(shuffle(count, 0) / gridBlocksX()) + 1;
  }
  return LaunchCount(mail).stamp();
}

// The first warp of a block computes its share of the rows, the second gets all; the last row for lanes past it.
template <Mistake kMistake> KILN_DEVICE void shareRows(const float *x, StampedValue *mail, float *out, int rows) {
  MailStamp &shared = sharedStorage<MailStamp>();
  if (threadIndex() == 0) {
    initBarrier(shared.known, 1);
    fenceBarriers();
  }
  syncThreads();
  const RowValues values{x, mail};
  const RowMail<RowValues> own{values, rows - 1};
  if (warpIndex() == 0) {
    const u32 stamp = stampOf<kMistake>(mail);
    shared.publish(stamp);
    for (int row = int(blockIndexX()); row < rows; row += int(gridBlocksX()))
      if (kMistake != Mistake::RowLeftOut || row != 1)
        own.send(row, own.computeRows(row), stamp);
  } else {
    const u32 stamp = kMistake == Mistake::StampTooEarly ? shared.stamp : shared.wait();
    const auto operands = own.receive(int(laneIndex()), stamp);
    out[blockIndexX() * 32 + laneIndex()] = operands.value + 1000 * operands.index;
  }
}

extern "C" __global__ void shares_rows(const float *x, StampedValue *mail, float *out, int rows) {
  shareRows<Mistake::None>(x, mail, out, rows);
}
extern "C" __global__ void one_stamp_for_all(const float *x, StampedValue *mail, float *out, int rows) {
  shareRows<Mistake::OneStampForAll>(x, mail, out, rows);
}
extern "C" __global__ void row_left_out(const float *x, StampedValue *mail, float *out, int rows) {
  shareRows<Mistake::RowLeftOut>(x, mail, out, rows);
}
extern "C" __global__ void stamp_too_early(const float *x, StampedValue *mail, float *out, int rows) {
  shareRows<Mistake::StampTooEarly>(x, mail, out, rows);
}
extern "C" __global__ void blocks_do_not_add_up(const float *x, StampedValue *mail, float *out, int rows) {
  shareRows<Mistake::BlocksDoNotAddUp>(x, mail, out, rows);
}

} // namespace kiln
