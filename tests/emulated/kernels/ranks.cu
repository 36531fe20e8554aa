// Kernels of several ranks, which run at the same time; RankTest.cpp says what each must compute, or how it is wrong.
#include "device/device.cuh"
#include "exchange/exchange.cuh"
#include "exchange/rows.cuh"
#include "exchange/shares.cuh"
#include "exchange/slices.cuh"

namespace kiln {

constexpr int kRanks = 3;
using Inboxes = PerRank<BlockInbox<kRanks> *, kRanks>;

struct Config {
  static constexpr int kRanks = kiln::kRanks, kBlocks = 4, kThreads = 64, kVec = 2;
};

struct Sums {
  const float *x;
  float *out;

  template <int V> KILN_DEVICE Vec<float, V> load(i64 index) const { return kiln::load<V>(x + index); }
  template <int V> KILN_DEVICE void operator()(i64 index, const RankParts<kRanks, V> &parts) const {
    store(out + index, parts.sum());
  }
};
// Several times, so that words are used again.
extern "C" __global__ void sums(const float *x, float *out, Inboxes inboxes, const u32 *stop, int rank, int count) {
  for (int time = 0; time < 5; ++time)
    exchangeElements<Config>(count, Exchange<kRanks>{inboxes, rank, stop}, Sums{x, out});
}

// Sums of rows with statistics. The last vectors of a row belong to some lanes only.
template <int kStagesOfWarp> struct RowConfig {
  static constexpr int kRanks = kiln::kRanks, kCols = 264, kBlocks = 4, kThreads = 64, kStages = kStagesOfWarp,
                       kUnroll = 1, kVec = 8;
};
constexpr int kCols = RowConfig<1>::kCols;
using Parts = PerRank<const float *, kRanks>;
using Results = PerRank<float *, kRanks>;

/// Behind the sum, one for each row; and the mean and reciprocal deviation of the rows.
template <class Out> struct RowSums {
  Out out, mean, rstd;

  using Row = float;
  static constexpr float kEps = 1.0f;
  template <int V> struct Operands {};
  template <int V> KILN_DEVICE Operands<V> operands(int, int) const { return {}; }
  template <int V>
  KILN_DEVICE Vec<float, V> operator()(Vec<float, V> sum, const Operands<V> &, int row, int col) const {
    store(out + i64(row) * kCols + col, sum);
    return sum;
  }
  KILN_DEVICE void statistics(RowStatistics s, int row) const {
    store(mean + i64(row), Vec<float, 1>{s.mean});
    store(rstd + i64(row), Vec<float, 1>{s.rstd});
  }
};
struct SlicedSums : RowSums<Results> {
  Parts x;

  using Part = float;
  KILN_DEVICE const float *part(int rank, int row) const { return x[rank] + i64(row) * kCols; }
};
struct ExchangedSums : RowSums<float *> {
  const float *x;

  template <int V> KILN_DEVICE Vec<float, V> load(i64 index) const { return kiln::load<V>(x + index); }
};

template <int kStages>
KILN_DEVICE void addSlices(const Parts &x, const Results &out, const Results &mean, const Results &rstd,
                           const Inboxes &inboxes, const u32 *stop, int rank, int rows) {
  exchangeSlices<RowConfig<kStages>>(rows, Exchange<kRanks>{inboxes, rank, stop}, SlicedSums{{out, mean, rstd}, x});
}
extern "C" __global__ void copied_slices(Parts x, Results out, Results mean, Results rstd, Inboxes inboxes,
                                         const u32 *stop, int rank, int rows) {
  addSlices<3>(x, out, mean, rstd, inboxes, stop, rank, rows);
}
extern "C" __global__ void loaded_slices(Parts x, Results out, Results mean, Results rstd, Inboxes inboxes,
                                         const u32 *stop, int rank, int rows) {
  addSlices<1>(x, out, mean, rstd, inboxes, stop, rank, rows);
}
extern "C" __global__ void exchanged_rows(Parts x, Results out, Results mean, Results rstd, Inboxes inboxes,
                                          const u32 *stop, int rank, int rows) {
  exchangeRows<RowConfig<1>>(rows, Exchange<kRanks>{inboxes, rank, stop},
                             ExchangedSums{{out[rank], mean[rank], rstd[rank]}, x[rank]});
}

// Shares of 6, 4 and 2 columns, side by side on all ranks.
struct ShareConfig {
  static constexpr int kRanks = kiln::kRanks, kBlocks = 4, kThreads = 64, kUnroll = 2, kVec = 2;
};
struct Shares {
  const float *x;
  Results out;
  int rank;

  KILN_DEVICE int cols() const { return 6 - 2 * rank; }
  KILN_DEVICE int firstCol() const { return rank * (7 - rank); }
  template <int V> KILN_DEVICE Vec<float, V> load(i64 index) const { return kiln::load<V>(x + index); }
  template <int V> KILN_DEVICE void operator()(i64 index, const Vec<float, V> &values) const {
    store(out + (index / cols() * 12 + firstCol() + index % cols()), values);
  }
};
extern "C" __global__ void shares(const float *x, Results out, Inboxes inboxes, const u32 *stop, int rank, int rows) {
  const Shares body{x, out, rank};
  exchangeShares<ShareConfig>(i64(rows) * body.cols(), Exchange<kRanks>{inboxes, rank, stop}, body);
}

// A rank copies another one's part before that one is there.
extern "C" __global__ void copied_early(PerRank<float *, kRanks> x, float *out, Inboxes inboxes, const u32 *stop,
                                        int rank) {
  struct Shared {
    alignas(16) float part[4];
    SharedBarrier full;
  };
  Shared &shared = sharedStorage<Shared>();
  if (rank == 0 && threadIndex() == 0) {
    initBarrier(shared.full, 1);
    fenceBarriers();
    arriveExpecting(shared.full, sizeof(shared.part));
    copyBytes(SharedAddress(shared.part), x[1], sizeof(shared.part), shared.full); // here: copied_early
    waitBarrier(shared.full, 0);
    *out = shared.part[0];
  }
  syncRanks(Exchange<kRanks>{inboxes, rank, stop});
}

// A warp asks for a row before it has read the one in whose place it comes.
extern "C" __global__ void asked_too_early(Parts x, float *out) {
  const SlicedSums body{{}, x};
  const CopiedParts<RowConfig<2>, SlicedSums> others{body, 0, {0, 1, 3}};
  others.init();
  syncThreads();
  if (warpIndex() > 0)
    return;
  others.begin();
  others.await(0);
  others.ask(2);
  out[threadIndex()] = others.part(0, 0)[threadIndex()]; // here: asked_too_early
  others.await(1);
  others.await(2);
}

// Each block adds its index to what it posts for all ranks, and counts itself at all of them; the sum of all that has
// come, when all blocks of all ranks are there.
template <bool kForgets>
KILN_DEVICE void postAndCount(PerRank<StampedValue *, kRanks> mails, float *out, const u32 *stop, int rank) {
  constexpr int kBlocks = 3, kSources = kRanks * kBlocks;
  const int block = int(blockIndexX()), source = rank * kBlocks + block;
  u32 *const counts = reinterpret_cast<u32 *>(mails[rank] + 2 * kSources);
  for (u32 time = 1; time <= 4; ++time) {
    if (threadIndex() < u32(kRanks))
      postToRank(mails[int(threadIndex())] + 2 * source, {float(time), float(source)}, time);
    Vec<float, 2> sum{};
    for (int from = 0; threadIndex() == 0 && from < kSources; ++from) {
      StampedPair pair = peekFromRanks(mails[rank] + 2 * from);
      for (u32 tries = 0; !pair.has(time); pair = peekFromRanks(mails[rank] + 2 * from))
        retryForRanks(tries++, stop);
      sum += pair.values();
    }
    if (threadIndex() == 0)
      store(out + block * 2, sum);
    syncThreads();
    for (int to = 0; threadIndex() == 0 && to < kRanks; ++to)
      if (!kForgets || rank != 2 || block != 1)
        countAtRank(reinterpret_cast<u32 *>(mails[to] + 2 * kSources));
    if (threadIndex() == 0)
      awaitRank(counts, time * u32(kSources), stop); // here: forgotten
    syncThreads();
  }
}
extern "C" __global__ void counted(PerRank<StampedValue *, kRanks> mails, float *out, const u32 *stop, int rank) {
  postAndCount<false>(mails, out, stop, rank);
}
extern "C" __global__ void forgotten(PerRank<StampedValue *, kRanks> mails, float *out, const u32 *stop, int rank) {
  postAndCount<true>(mails, out, stop, rank);
}

// A rank writes nothing.
extern "C" __global__ void silent(float *out, Inboxes inboxes, const u32 *stop, int rank) {
  if (rank != 2)
    postToRank(inboxes[1 - rank]->words[0][rank][0][0], {1.0f, 2.0f}, 1);
  if (rank == 1)
    out[threadIndex()] = awaitPosts<1>(inboxes[1]->words[0][2][0][0], 0, 1, stop)[0]; // here: silent
}

// A rank writes the stamp of the time before.
extern "C" __global__ void stale(float *out, Inboxes inboxes, const u32 *stop, int rank) {
  for (u32 time = 1; time <= 2; ++time) {
    if (rank == 0)
      postToRank(inboxes[1]->words[0][0][0][threadIndex()], {1.0f, 2.0f}, 1);
    if (rank == 1)
      out[threadIndex()] = awaitPosts<1>(inboxes[1]->words[0][0][0][threadIndex()], 0, time, stop)[0]; // here: stale
  }
}

// A word is written again before the other rank has read it; with one buffer less than exchangeElements has.
extern "C" __global__ void reused(float *out, Inboxes inboxes, const u32 *stop, int rank) {
  for (u32 time = 1; rank == 0 && time <= 2; ++time)
    postToRank(inboxes[1]->words[0][0][0][0], {float(time), 0.0f}, time);
  if (rank == 1)
    out[0] = awaitPosts<1>(inboxes[1]->words[0][0][0][0], 0, 1, stop)[0]; // here: reused
}

// A rank does not wait for the others before it reads their parts.
extern "C" __global__ void early(PerRank<float *, kRanks> x, float *out, Inboxes inboxes, const u32 *stop, int rank) {
  if (rank == 0)
    *out = *x[1]; // here: early
  const Exchange<kRanks> ranks{inboxes, rank, stop};
  if (rank == 1 && threadIndex() == 0)
    *x[1] = 3.0f;
  syncRanks(ranks);
}

extern "C" __global__ void barrier(float *out, Inboxes inboxes, const u32 *stop, int rank) {
  if (rank == 2)
    return;
  syncRanks(Exchange<kRanks>{inboxes, rank, stop}); // here: barrier
}

} // namespace kiln
