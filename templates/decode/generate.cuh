//===- generate.cuh - several tokens of a few rows, layers and sampling, in one kernel ----===//
//
// decode/layers.cuh in a loop, whose tokens are chosen in the kernel: a launch and the first weights cost time once for
// all of them. When a token's logits are in memory, all blocks wait for each other. Then each warp of the grid finds
// what is best in a group of ids (sample/row_sampler.cuh); when all have, block `row` chooses the row's token, updates
// the row (sample/sequence.cuh) and tells all blocks the token beside a stamp. Weights of the next token are on their
// way meanwhile. Ranks that share a model (decode/ranks.cuh) wait for the logits of all, and choose the tokens each by
// itself, from the same bits.
//
// The kernel ends after `count` tokens, or when all rows are finished; then it makes known that there are no further
// ones. So each launch makes `count` choices for each row.
//
// The cache: keys and values of a token are written in one block and read in others at later tokens. The barriers of
// all blocks in between make them visible.
//
// Config: as of decode/layers.cuh and sample/sample.cuh; kThreads is the block's.
//
// Shared memory: as of decode/layers.cuh, and what sampling declares statically, kGenerateStatic bytes at most.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "decode/layers.cuh"
#include "device/atomic.cuh"
#include "device/barrier.cuh"
#include "device/block.cuh"
#include "device/index.cuh"
#include "device/mailbox.cuh"
#include "device/shared.cuh"
#include "device/warp.cuh"
#include "gemm/ring_place.cuh"
#include "sample/row_sampler.cuh"
#include "sample/sample.cuh"
#include "sample/sequence.cuh"
#include "sample/state.cuh"

namespace kiln {

template <class Config, class T>
constexpr SharedBytes kGenerateTokensShared = {0, int(sizeof(DecodeStorage<Config, T>))};

constexpr int kGenerateStatic = 24 * 1024;

/// What sampling has in shared memory.
template <class Config> struct GenerateStorage {
  RowStorage<Config> row;
  u32 isFinished[Config::kRows];
};

/// A thread of the kernel. All threads make one.
template <class Config, class T> class GenerateTokens : public DecodeLayers<Config, T> {
public:
  using Layers = DecodeLayers<Config, T>;
  using Shape = DecodeShape<Config, T>;
  static_assert(Config::kThreads == Shape::kThreads, "all threads of the block choose tokens");
  static_assert(sizeof(GenerateStorage<Config>) <= kGenerateStatic, "shared memory as planned");

  using Layers::Layers;

  /// Takes the rows' tokens and positions. The producer does not call this.
  template <class Token, class Position> KILN_DEVICE void begin(const Token &token, const Position &position) {
    Layers::begin(token, position);
    // No block arrives before this one has posted sums.
    if (this->index() == 0)
      arrivals = loadAcquire(this->mail.arrivals());
    this->meet();
  }

  /// Copies the weights of token number `token` of `count`, and the first ones of the next token.
  template <class Maps> KILN_DEVICE void produce(int token, int count, const Maps &qkv, const Maps &proj,
                                                 const Maps &fc, const Maps &fcproj, const TensorMap &logits) {
    const u32 units = this->unitsOfToken(), last = u32(count) * units;
    this->copyUntil(min(u32(token + 1) * units + Shape::kStages, last), qkv, proj, fc, fcproj, logits);
  }

  /// Chooses the next token of each row; `left` counts the tokens of this launch from this one on. Returns whether
  /// another one is to come. All threads call this, and all get the result.
  KILN_DEVICE bool choose(const float *logits, const SequenceState<Config> &state, GroupBest *best, int left) {
    auto &storage = sharedStorage<GenerateStorage<Config>>();
    awaitLogits();
    for (int row = 0; row < this->rows; ++row)
      findBest(logits + i64(row) * Config::kPitch, RowChoice::of<Config>(state.settings[row], state.rows[row], 0),
               best + i64(row) * RowShape<Config>::kGroups);
    arriveAll();
    const int own = int(blockIndexX());
    if (own < this->rows) {
      awaitAll();
      chooseRow(own, logits, state, best, storage.row);
    }
    awaitTokens(storage);
    bool isAnyLeft = false;
    for (int row = 0; row < this->rows; ++row)
      isAnyLeft |= storage.isFinished[row] == 0;
    if (!isAnyLeft && own < this->rows && threadIndex() == 0)
      for (int i = 1; i < left; ++i)
        state.publish(u32(own), kNoToken);
    return isAnyLeft && left > 1;
  }

  /// Waits for copies that nothing needs any more, behind `tokens` tokens.
  KILN_DEVICE void end(int tokens) {
    if (this->index() != Shape::kConsumers)
      return;
    for (u32 unit = u32(tokens) * this->unitsOfToken(); unit < this->copies.copied; ++unit) {
      const auto place = RingPlace<Shape::kStages>::after(unit);
      waitBarrier(this->shared.full[place.stage], place.parity);
    }
  }

private:
  /// Waits for the logits of all blocks, of all ranks.
  KILN_DEVICE void awaitLogits() {
    if constexpr (Config::kRanks == 1) {
      arriveAll();
      awaitAll();
    } else {
      syncThreads();
      this->arriveAtRanks();
      this->awaitRanks();
      syncThreads();
    }
  }

  /// The two halves of a barrier of all blocks: what threads did before they arrived is visible to those that have
  /// waited.
  KILN_DEVICE void arriveAll() {
    syncThreads();
    if (threadIndex() == 0)
      arrive(this->mail.arrivals());
    arrivals += gridBlocksX();
  }
  KILN_DEVICE void awaitAll() const {
    if (threadIndex() == 0)
      while (i32(loadAcquire(this->mail.arrivals()) - arrivals) < 0)
        pause();
    syncThreads();
  }

  /// Finds the best of the groups of a row that this warp has.
  KILN_DEVICE static void findBest(const float *logits, const RowChoice &choice, GroupBest *best) {
    if (choice.isFinished)
      return;
    const u32 step = gridBlocksX() * RowShape<Config>::kWarps;
    for (u32 group = warpIndex() * gridBlocksX() + blockIndexX(); group < u32(RowShape<Config>::kGroups);
         group += step) {
      const GroupBest found = bestOfGroup<Config>(logits, group, choice.way, choice.noise);
      if (laneIndex() == 0)
        best[group] = found;
    }
  }

  /// Chooses a row's token, and tells all blocks.
  KILN_DEVICE void chooseRow(int row, const float *logits, const SequenceState<Config> &state, const GroupBest *best,
                             RowStorage<Config> &storage) const {
    const auto choice = RowChoice::of<Config>(state.settings[row], state.rows[row], 0);
    i32 token = kNoToken;
    if (!choice.isFinished)
      token = chooseToken<Config>(logits + i64(row) * Config::kPitch, best + i64(row) * RowShape<Config>::kGroups,
                                  choice.way, choice.noise, storage);
    if (threadIndex() != 0)
      return;
    if (choice.isFinished)
      state.publish(u32(row), kNoToken);
    else
      state.take(u32(row), token);
    const u32 position = u32(state.positions[row]) | (state.rows[row].isFinished != 0 ? kFinished : 0);
    post(this->mail.next(row), {bitCast<float>(state.tokens[row]), bitCast<float>(position)}, this->next);
  }
  static constexpr u32 kFinished = 0x80000000u; ///< beside a position

  /// Waits for the tokens of all rows.
  KILN_DEVICE void awaitTokens(GenerateStorage<Config> &storage) const {
    if (const int row = int(threadIndex()); row < this->rows) {
      StampedPair pair = peek(this->mail.next(row));
      for (; !pair.has(this->next); pair = peek(this->mail.next(row)))
        retry();
      const u32 position = bitCast<u32>(pair.second.value);
      this->shared.tokens[row] = bitCast<i32>(pair.first.value);
      this->shared.newest[row] = int(position & ~kFinished);
      storage.isFinished[row] = position & kFinished;
    }
    syncThreads();
  }

  u32 arrivals = 0; ///< of the first thread: those after which all blocks have arrived
};

} // namespace kiln
