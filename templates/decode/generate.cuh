//===- generate.cuh - several tokens of a few rows, layers and sampling, in one kernel ----===//
//
// decode/layers.cuh in a loop, whose tokens are chosen in the kernel: a launch and the first weights cost time once for
// all of them. When a token's logits are in memory, all blocks wait for each other. Then each warp of the grid finds
// what is best in a group of ids (sample/row_sampler.cuh); when all have, block `row` chooses the row's token, tells
// all blocks the token beside a stamp and updates the row (sample/sequence.cuh). Weights of the next token are on their
// way meanwhile. Ranks that share a model (decode/ranks.cuh) wait for the logits of all, and choose the tokens each by
// itself, from the same bits.
//
// Of one row that is chosen greedily, nobody waits for logits: each block posts the best of its own columns, to all
// ranks, and block 0 of each rank takes the best of these. Only behind the last token do ranks wait for all logits.
//
// The kernel ends after `count` tokens, or when all rows are finished; then it makes known that there are no further
// ones. So each launch makes `count` choices for each row.
//
// The cache: keys and values of a token are written in one block of a cluster and read in the others at later tokens.
// The block tells them when it has written all (DecodeRing::cached), before it knows its logits: what it takes to
// make writes visible would delay posts.
//
// Config: as of decode/layers.cuh and sample/sample.cuh; kThreads is the block's.
//
// Shared memory, all dynamic: as of decode/layers.cuh. Sampling has that of its buffers, kSamplingBytes at most.
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

constexpr int kSamplingBytes = 24 * 1024;

/// What sampling has in the memory of the buffers of layers, between tokens.
template <class Config, class T> struct SamplingStorage : DecodeRing<Config, T> {
  RowStorage<Config> row;
};

template <class Config, class T>
constexpr SharedBytes kGenerateTokensShared = {
    0, ceilDiv(max(int(sizeof(DecodeStorage<Config, T>)), int(sizeof(DecodeRing<Config, T>)) + kSamplingBytes),
               int(kWarpgroupTileAlignment)) *
           int(kWarpgroupTileAlignment)};

/// A thread of the kernel. All threads make one. The producer takes no part in what others do, but that its warp helps
/// to choose tokens in those blocks that choose them from logits.
template <class Config, class T> class GenerateTokens : public DecodeLayers<Config, T> {
public:
  using Layers = DecodeLayers<Config, T>;
  using Shape = DecodeShape<Config, T>;
  static_assert(Config::kThreads == Shape::kThreads, "all threads of the block choose tokens");
  static_assert(sizeof(RowStorage<Config>) <= kSamplingBytes, "shared memory as planned");

  using Layers::Layers;

  /// Takes the rows' tokens and positions. The producer does not call this.
  template <class Token, class Position>
  KILN_DEVICE void begin(const Token &token, const Position &position, const SamplingSettings *settings) {
    Layers::begin(token, position);
    // No block arrives before this one has posted sums.
    if (this->index() == 0) {
      this->shared.arrivals = loadAcquire(this->mail.arrivals());
      this->shared.isGreedy = settings[0].isGreedy != 0;
    }
    this->meet();
  }

  /// Copies the weights of token number `token` of `count`, and the first ones of the next token.
  template <class Maps>
  KILN_DEVICE void produce(int token, int count, const SamplingSettings *settings, const Maps &qkv, const Maps &proj,
                           const Maps &fc, const Maps &fcproj, const TensorMap &logits) {
    UnitCopies<Config, T> copies{this->shared, token == 0 ? 0 : unitsBehind(token - 1, count, settings)};
    this->copyUntil(copies, unitsBehind(token, count, settings), qkv, proj, fc, fcproj, logits);
    syncWarp(); // lanes that waited for the next token would slow down the one that copies
  }

  /// The product for the logits; a thread keeps the best of those that it stores.
  template <class Norm, class Logits> KILN_DEVICE void logits(const Norm &norm, const Logits &epilogue) {
    bestOfOwn = 0;
    // Every warp has waited for the others since the last keys and values were written.
    if (this->rank == 0 && this->warp() == Shape::kWarps - 1 && this->lane() < Shape::kBlocks)
      arrive(inBlock(&this->shared.cached, u32(this->lane())));
    Layers::logits(norm, [&](const Vec<float, 1> &logit, int row, int col) {
      epilogue(logit, row, col);
      if (kCanPostBest && col < countOfShare())
        bestOfOwn = max(bestOfOwn, candidateOf(logit[0], u32(firstOfShare() + col)));
    });
  }

  /// Chooses the next token of each row, behind token number `token` of `count` of this launch. Returns whether
  /// another one is to come. All threads call this, and all get the result.
  template <class Embed>
  KILN_DEVICE bool choose(const Embed &embed, const float *logits, const SequenceState<Config> &state, GroupBest *best,
                          int token, int count) {
    this->renewIndex();
    if (!postsBest(state.settings))
      chooseFromLogits(logits, state, best);
    else if constexpr (kCanPostBest)
      chooseBest(embed, state);
    const bool isAnyLeft = awaitTokens(u32(token) % 2), isLast = !isAnyLeft || token + 1 == count;
    if constexpr (Config::kRanks > 1)
      if (isLast && !this->isProducer() && postsBest(state.settings))
        this->awaitLogitsOfRanks();
    if (const int own = int(blockIndexX()); !isAnyLeft && own < this->rows && threadIndex() == 0)
      for (int i = token + 1; i < count; ++i)
        state.publish(u32(own), kNoToken);
    return !isLast;
  }

  /// Waits for copies that nothing needs any more, behind token number `token`.
  KILN_DEVICE void end(int token, int count, const SamplingSettings *settings) {
    if (this->index() != Shape::kConsumers)
      return;
    for (u32 unit = u32(token + 1) * this->unitsOfToken(); unit < unitsBehind(token, count, settings); ++unit) {
      const auto place = RingPlace<Shape::kStages>::after(unit);
      waitBarrier(this->shared.full[place.stage], place.parity);
    }
  }

private:
  /// Whether a token may be chosen by what blocks post: then all sums of a block's logits are in its first warp.
  static constexpr bool kCanPostBest = Config::kRows == 1;
  static constexpr int kLineElements = 64; ///< of a line of the cache
  static_assert(!kCanPostBest || Config::kDim <= kLineElements * int(kWarpSize), "a lane for each line of a token");
  static_assert(!kCanPostBest || Shape::kBatch * 4 <= int(kWarpSize), "sums in the first warp");

  /// The units that have been copied when the producer waits for the token that follows number `token`: of the next
  /// ones, as many as the ring has room for. Where this warp is about to choose a token, no more than are under way
  /// while the last weights of this one come.
  KILN_DEVICE u32 unitsBehind(int token, int count, const SamplingSettings *settings) const {
    const bool isFree = postsBest(settings) || int(blockIndexX()) >= this->rows;
    return min(u32(token + 1) * this->unitsOfToken() + u32(isFree ? Shape::kStages : Shape::kLogitsInFlight),
               u32(count) * this->unitsOfToken());
  }

  KILN_DEVICE bool postsBest(const SamplingSettings *settings) const {
    return kCanPostBest && (this->isProducer() ? settings[0].isGreedy != 0 : this->shared.isGreedy);
  }

  /// The rank's share of the vocabulary: its first token, and how many there are. The first ranks have one more.
  KILN_DEVICE int firstOfShare() const { return Shape::firstOf(Config::kVocabulary, Config::kRanks, this->ranks.rank); }
  KILN_DEVICE int countOfShare() const { return Shape::partOf(Config::kVocabulary, Config::kRanks, this->ranks.rank); }

  /// Chooses the row's token, the best of what blocks post: the first warp of block 0 takes it.
  template <class Embed> KILN_DEVICE void chooseBest(const Embed &embed, const SequenceState<Config> &state) {
    if (this->warp() != 0)
      return;
    const int block = int(renewed(blockIndexX()));
    const u64 own = warpMax(bestOfOwn);
    if (const int to = this->lane(); to < Config::kRanks)
      this->ranks.post(Mailboxes<Config, T>{this->ranks.words(to)}.best(this->ranks.rank * Shape::kAllBlocks + block),
                       {bitCast<float>(u32(own >> 32)), bitCast<float>(u32(own))}, this->next);
    // One of these embeddings will be needed, which have no time to come from memory then.
    if (const i32 token = tokenOfBest(own), col = this->lane() * kLineElements; token >= 0 && col < Config::kDim)
      embed.prefetch(token, min(this->shared.newest[0] + 1, Config::kContext - 1), col);
    syncWarp(); // the first lane writes the position that the others have read
    if (block != 0)
      return;
    const RowNow now = state.now(0);
    const u64 best = awaitBest();
    if (this->lane() == 0)
      takeToken(0, now, tokenOfBest(best), state);
  }
  /// The best of what all blocks of all ranks post. All lanes of a warp call this.
  KILN_DEVICE u64 awaitBest() const {
    constexpr int kBlocks = Config::kRanks * Shape::kAllBlocks, kTurns = ceilDiv(kBlocks, int(kWarpSize));
    constexpr int kAtOnce = min(kTurns, 9); // of which the words fit into registers
    u64 best = 0;
#pragma unroll
    for (int first = 0; first < kTurns; first += kAtOnce)
      best = max(best, bestOfSome<kAtOnce>(first * int(kWarpSize) + this->lane(), kBlocks));
    syncWarp();
    return warpMax(best);
  }
  /// The best of what every 32nd block from `first` on posts, kCount of them, but below `end`.
  template <int kCount> KILN_DEVICE u64 bestOfSome(int first, int end) const {
    const StampedValue missing = {0.0f, this->next - 1};
    StampedPair pairs[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      pairs[i] = {missing, missing};
    const auto isExpected = [&](int i) { return first + i * int(kWarpSize) < end; };
    u32 tries = 0;
    for (bool isComplete = false; !isComplete;) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (isExpected(i) && !pairs[i].has(this->next))
          pairs[i] = this->ranks.peek(this->mail.best(first + i * int(kWarpSize)));
      isComplete = true;
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        isComplete &= !isExpected(i) || pairs[i].has(this->next);
      if (!isComplete)
        this->ranks.retry(tries++);
    }
    u64 best = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (isExpected(i))
        best = max(best, u64(bitCast<u32>(pairs[i].first.value)) << 32 | bitCast<u32>(pairs[i].second.value));
    return best;
  }

  /// Chooses all rows' tokens when the logits are in memory.
  KILN_DEVICE void chooseFromLogits(const float *logits, const SequenceState<Config> &state, GroupBest *best) {
    const int own = int(blockIndexX());
    if (!this->isProducer()) {
      awaitLogits();
      for (int row = 0; row < this->rows; ++row)
        findBest(logits + i64(row) * Config::kPitch, RowChoice::of<Config>(state.settings[row], state.rows[row], 0),
                 best + i64(row) * RowShape<Config>::kGroups);
      arriveAll();
      if (own < this->rows)
        awaitAll();
    }
    if (own < this->rows)
      chooseRow(own, logits, state, best);
  }

  /// Waits for the logits of all blocks, of all ranks.
  KILN_DEVICE void awaitLogits() {
    if constexpr (Config::kRanks == 1) {
      arriveAll();
      awaitAll();
    } else {
      this->awaitLogitsOfRanks();
      this->meet();
    }
  }

  /// The two halves of a barrier of all blocks, but their producers: what threads did before they arrived is visible to
  /// those that have waited.
  KILN_DEVICE void arriveAll() {
    this->meet();
    if (this->index() == 0) {
      this->shared.arrivals += gridBlocksX();
      arrive(this->mail.arrivals());
    }
  }
  KILN_DEVICE void awaitAll() {
    if (this->index() == 0)
      while (i32(loadAcquire(this->mail.arrivals()) - this->shared.arrivals) < 0)
        pause();
    this->meet();
  }

  /// Finds the best of the groups of a row that this warp has.
  KILN_DEVICE static void findBest(const float *logits, const RowChoice &choice, GroupBest *best) {
    if (choice.isFinished)
      return;
    for (u32 group = warpIndex() * gridBlocksX() + blockIndexX(); group < u32(RowShape<Config>::kGroups);
         group += gridBlocksX() * u32(Shape::kWarps)) {
      const GroupBest found = bestOfGroup<Config>(logits, group, choice.way, choice.noise);
      if (laneIndex() == 0)
        best[group] = found;
    }
  }

  /// Chooses a row's token. All threads of the block call this.
  KILN_DEVICE void chooseRow(int row, const float *logits, const SequenceState<Config> &state,
                             const GroupBest *best) const {
    // Other blocks send into this one's buffers when they have a token.
    auto &storage = dynamicShared<SamplingStorage<Config, T>>().row;
    syncThreads();
    const auto choice = RowChoice::of<Config>(state.settings[row], state.rows[row], 0);
    i32 token = kNoToken;
    if (!choice.isFinished)
      token = chooseToken<Config>(logits + i64(row) * Config::kPitch, best + i64(row) * RowShape<Config>::kGroups,
                                  choice.way, choice.noise, storage);
    if (threadIndex() == 0)
      takeToken(row, state.now(u32(row)), token, state);
  }

  /// Tells all blocks a row's next input, and takes the token, if the row is not finished.
  KILN_DEVICE void takeToken(int row, const RowNow &now, i32 token, const SequenceState<Config> &state) const {
    const NextInput input = now.isFinished ? NextInput{now.token, now.position, true} : now.with(token);
    post(this->mail.next(row),
         {bitCast<float>(input.token), bitCast<float>(u32(input.position) | (input.isFinished ? kFinished : 0))},
         this->next);
    if (now.isFinished)
      state.publish(u32(row), kNoToken);
    else
      state.take(u32(row), token, now);
  }
  static constexpr u32 kFinished = 0x80000000u; ///< beside a position

  /// Waits for the next inputs of all rows. Returns whether some row goes on.
  KILN_DEVICE bool awaitTokens(u32 parity) {
    if (this->isProducer())
      waitBarrier(this->shared.chosen, parity);
    else
      receiveTokens(parity);
    bool isAnyLeft = false;
    for (int row = 0; row < this->rows; ++row)
      isAnyLeft |= !this->shared.isFinished[row];
    return isAnyLeft;
  }
  KILN_DEVICE void receiveTokens(u32 parity) {
    if (const int row = this->index(); row < this->rows) {
      const StampedPair pair = await(this->mail.next(row));
      const u32 position = bitCast<u32>(pair.second.value);
      this->shared.tokens[row] = bitCast<i32>(pair.first.value);
      this->shared.newest[row] = int(position & ~kFinished);
      this->shared.isFinished[row] = position & kFinished;
    }
    if (this->index() == Shape::kConsumers - 1) {
      waitClusterBarrier(this->shared.cached, parity);
      acquireCluster();
    }
    this->meet();
    if (this->index() == 0)
      arrive(this->shared.chosen);
  }

  /// Waits until two words have been posted in this token's turn.
  KILN_DEVICE StampedPair await(const StampedValue *words) const {
    StampedPair pair = peek(words);
    for (; !pair.has(this->next); pair = peek(words))
      retry();
    return pair;
  }

  u64 bestOfOwn = 0; ///< candidate of the logits that this thread has stored
};

} // namespace kiln
