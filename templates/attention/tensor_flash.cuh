//===- tensor_flash.cuh - parts of flash attention in tensor cores --------===//
//
// Tiles of heads in shared memory, and the online softmax of Milakov and Gimelshein on scores as tensor cores leave
// them in registers (device/tensor_core.cuh): 16 rows of queries a warp. Exponentials are powers of two, the factor of
// the scores and log2(e) folded into one multiplication.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/flash_tile.cuh"
#include "attention/head_view.cuh"
#include "device/async_copy.cuh"
#include "device/base.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
#include "device/shared.cuh"
#include "device/tensor_core.cuh"
#include "device/vec.cuh"
#include "device/warp.cuh"
#include "norm/online_softmax.cuh"

namespace kiln {

/// The layout of rows of heads in shared memory: slabs of 64 elements, in rows of 128 bytes whose chunks of 16 bytes
/// are permuted by the row (swizzledOffset). A head size that is not a multiple of 16 is padded with zeros there.
template <int kHeadSize> struct HeadTile {
  static constexpr int kChunks = kHeadSize / 8;              // chunks of 16 bytes in a head
  static constexpr int kDepthSteps = ceilDiv(kHeadSize, 16); // steps of a product over a head's elements
  static constexpr int kSlabs = ceilDiv(kHeadSize, 64);
  KILN_DEVICE static constexpr u32 bytes(int rows) { return u32(kSlabs * rows) * kSwizzledRowBytes; }
};

/// Starts the block's copy of kRows rows of a head, `stride` elements apart; there are `rows` of them from `source` on,
/// and the last one is repeated after them.
template <int kHeadSize, int kRows, int kThreads, class T>
KILN_DEVICE void copyHeads(SharedAddress to, const T *source, i64 stride, int rows) {
  using Tile = HeadTile<kHeadSize>;
  constexpr u32 kPerRow = kRowChunks;
  constexpr int kRowsAtOnce = kThreads / int(kPerRow), kPadded = 2 * Tile::kDepthSteps; // chunks of a row
  const int row = int(threadIndex() / kPerRow), chunk = int(threadIndex() % kPerRow);
  const SharedAddress place = to + swizzledOffset(u32(row), u32(chunk), u32(row));
#pragma unroll
  for (int i = 0; i < ceilDiv(kRows, kRowsAtOnce); ++i) {
    const u32 below = u32(i * kRowsAtOnce); // its part in the key is constant
    if (kRows % kRowsAtOnce != 0 && row + int(below) >= kRows)
      continue;
    const T *from = source + min(row + int(below), rows - 1) * stride;
#pragma unroll
    for (int slab = 0; slab < Tile::kSlabs; ++slab) {
      const int column = slab * int(kPerRow) + chunk;
      if (slab * int(kPerRow) + int(kPerRow) > kPadded && column >= kPadded)
        continue;
      const bool exists = slab * int(kPerRow) + int(kPerRow) <= Tile::kChunks || column < Tile::kChunks;
      copyAsync((place ^ below % kPerRow * kChunkBytes) + (u32(slab * kRows) + below) * kSwizzledRowBytes,
                from + (exists ? column * 8 : 0), exists ? kChunkBytes : 0);
    }
  }
}

/// The place that a lane's first matrix load of queries reads: 16 of them and their chunks 0 and 1, the left operand.
KILN_DEVICE constexpr u32 flashQueryOffset(u32 lane) { return swizzledOffset(lane % 16, lane / 16, lane); }

/// From a lane's address of its first chunk, in a tile of kRows rows, to the one two `pair`s further, `row` (a multiple
/// of 8) rows below.
template <int kRows> KILN_DEVICE SharedAddress movedInTile(SharedAddress from, u32 row, u32 pair) {
  return (from ^ pair * 2 % kRowChunks * kChunkBytes) + (pair * 2 / kRowChunks * kRows + row) * kSwizzledRowBytes;
}

/// log2(e) · the factor of the scores.
template <class Score> KILN_DEVICE constexpr float flashScale() {
  static_assert(Score::kFactor > 0, "the largest product has the largest score");
  return Score::kFactor * 1.44269504f;
}

/// The softmax of 16 rows of a warp; a lane has row lane / 4 and the row 8 below it.
struct FlashRows {
  /// The reference of the weights, which is the largest score or one not far below it, and the thread's share of the
  /// sum.
  float largest[2] = {-infinity(), -infinity()}, sums[2] = {0, 0};

  /// Row of values[2 · half] of a tile's sums.
  KILN_DEVICE static int rowOf(int half) { return half * 8 + int(laneIndex()) / 4; }

  /// Masks the scores of keys at `firstKey` that the rows do not see; the first row is query `q` of the tile.
  template <class Config, int kTiles>
  KILN_DEVICE static void mask(MmaSums (&scores)[kTiles], const FlashTile<Config> &tile, int q, int firstKey) {
    const int key = firstKey + int(laneIndex()) % 4 * 2; // of the thread's first column
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int first = tile.firstVisible(q + rowOf(half)) - key, end = tile.visibleEnd(q + rowOf(half)) - key;
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int k = n * 8 + i;
          float &score = scores[n].values[2 * half + i];
          score = k < end && (FlashTile<Config>::kWindow == 0 || k >= first) ? score : -infinity();
        }
    }
  }

  /// Turns scores into weights. Returns whether sums that used an older maximum must be scaled by `factors`.
  template <int kTiles>
  KILN_DEVICE bool weigh(MmaSums (&scores)[kTiles], float scale, float (&factors)[2]) {
    float shifts[2];
    const bool rises = shift(scores, scale, factors, shifts);
    takeExponents(scores, scores, scale, shifts);
    scaleSums(factors);
    exponentiate<0, kTiles>(scores);
    return rises;
  }

  /// The first part of it: the exponents of weights are `shifts` below the scores.
  template <int kTiles>
  KILN_DEVICE bool shift(const MmaSums (&scores)[kTiles], float scale, float (&factors)[2], float (&shifts)[2]) {
    return raise(largestOf(scores), scale, factors, shifts);
  }

  /// The largest scores that the thread has of its two rows.
  struct Largest {
    float ofRows[2];
  };
  template <int kTiles> KILN_DEVICE static Largest largestOf(const MmaSums (&scores)[kTiles]) {
    Largest result = {{-infinity(), -infinity()}};
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
        result.ofRows[half] =
            fmax(result.ofRows[half], fmax(scores[n].values[2 * half], scores[n].values[2 * half + 1]));
    return result;
  }

  /// Whether one of the thread's scores makes the reference of its row rise. It is kept while weights are at most 2^8
  /// above 1, so that scaling is rare after the first tiles.
  KILN_DEVICE bool rises(const Largest &scores, float scale) const {
    return isHigher(scores, 0, scale) || isHigher(scores, 1, scale);
  }
  /// Raises the references of rows where the score of one of the four lanes makes them rise.
  KILN_DEVICE bool raise(Largest scores, float scale, float (&factors)[2], float (&shifts)[2]) {
    reduceRows<Max>(scores.ofRows);
    bool rises = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float &reference = largest[half];
      const bool isHigher = this->isHigher(scores, half, scale);
      const float raised = isHigher ? scores.ofRows[half] : reference;
      shifts[half] = softmaxShift(raised) * scale;
      // Exactly 1 for a row that keeps its maximum: it is scaled when another row of the thread rises.
      factors[half] = isHigher ? exp2(fma(reference, scale, -shifts[half])) : 1.0f;
      reference = raised;
      rises |= isHigher;
    }
    return rises;
  }

  /// The second part, after which the scores are no longer needed.
  template <int kTiles>
  KILN_DEVICE static void takeExponents(MmaSums (&exponents)[kTiles], const MmaSums (&scores)[kTiles], float scale,
                                        const float (&shifts)[2]) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        exponents[n].values[i] = fma(scores[n].values[i], scale, -shifts[i / 2]);
  }

  /// The third part, before weights are added.
  KILN_DEVICE void scaleSums(const float (&factors)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      sums[half] *= factors[half];
  }

  /// The last part: turns exponents into weights, and adds them to the sums; kCount tiles from kFirst on.
  template <int kFirst, int kCount, int kTiles> KILN_DEVICE void exponentiate(MmaSums (&exponents)[kTiles]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int n = kFirst; n < kFirst + kCount; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float &weight = exponents[n].values[2 * half + i];
          weight = exp2(weight);
          sums[half] += weight;
        }
  }

  /// Adds the sums of the same rows over other keys. The outputs of both count with these factors. `more` without keys
  /// changes nothing.
  KILN_DEVICE void merge(const FlashRows &more, float scale, float (&own)[2], float (&theirs)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float reference = fmax(largest[half], more.largest[half]), shift = softmaxShift(reference) * scale;
      own[half] = largest[half] == reference ? 1.0f : exp2(fma(largest[half], scale, -shift));
      theirs[half] = exp2(fma(more.largest[half], scale, -shift));
      largest[half] = reference;
      sums[half] = fma(more.sums[half], theirs[half], sums[half] * own[half]);
    }
  }

  /// Step `step` of the left operand of weights · values, 16 keys rounded to T.
  template <class T, int kTiles> KILN_DEVICE static MmaA rounded(const MmaSums (&weights)[kTiles], int step) {
    MmaA result;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float *pair = weights[2 * step + i / 2].values + i % 2 * 2;
      result.words[i] = pairFromFloat<T>(pair[0], pair[1]);
    }
    return result;
  }

  template <int kTiles> KILN_DEVICE static void scaleOutput(MmaSums (&out)[kTiles], const float (&factors)[2]) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        out[n].values[i] *= factors[i / 2];
  }

  /// The factors of the rows' sums of weighted values.
  struct Normalization {
    float factors[2];
  };
  KILN_DEVICE Normalization normalization() const {
    float total[2] = {sums[0], sums[1]};
    reduceRows<Sum>(total);
    return {{softmaxScale(total[0]), softmaxScale(total[1])}};
  }

  /// Passes the rows to the epilogue, two elements at a time; the first row is query `q` of the tile.
  template <class Config, int kTiles, class Epilogue>
  KILN_DEVICE static void finish(const MmaSums (&out)[kTiles], const Normalization &normalization,
                                 const FlashTile<Config> &tile, int q, const Epilogue &epilogue) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = normalization.factors[half];
      const int t = tile.firstQuery + q + rowOf(half);
      if (t >= tile.queries)
        continue;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const float *pair = out[n].values + 2 * half;
        epilogue(Vec<float, 2>{pair[0] * factor, pair[1] * factor}, tile.b, tile.h, t,
                 n * 8 + int(laneIndex()) % 4 * 2);
      }
    }
  }

  /// As finish, eight elements at a time; kTiles is a multiple of 4. All are exchanged before the first is stored: a
  /// condition in between would make each exchange wait for the one before.
  template <class Config, int kTiles, class Epilogue>
  KILN_DEVICE static void finishWide(const MmaSums (&out)[kTiles], const Normalization &normalization,
                                     const FlashTile<Config> &tile, int q, const Epilogue &epilogue) {
    Vec<float, 8> rows[2][kTiles / 4];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int n = 0; n < kTiles / 4; ++n)
        rows[half][n] = gathered(out + 4 * n, half) * normalization.factors[half];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = tile.firstQuery + q + rowOf(half);
      if (t >= tile.queries)
        continue;
#pragma unroll
      for (int n = 0; n < kTiles / 4; ++n)
        epilogue(rows[half][n], tile.b, tile.h, t, n * 32 + int(laneIndex()) % 4 * 8);
    }
  }

private:
  KILN_DEVICE bool isHigher(const Largest &scores, int half, float scale) const {
    constexpr float kSlack = 8;
    return scores.ofRows[half] * scale > fma(largest[half], scale, kSlack);
  }

  /// Combines the values of the four lanes that share the rows. Both rows take one step after the other, since the
  /// compiler keeps the order of exchanges.
  template <class Combine> KILN_DEVICE static void reduceRows(float (&ofRows)[2]) {
#pragma unroll
    for (u32 distance = 2; distance > 0; distance /= 2) {
      const float others[2] = {shuffleXor(ofRows[0], distance), shuffleXor(ofRows[1], distance)};
#pragma unroll
      for (int half = 0; half < 2; ++half)
        ofRows[half] = Combine::of(ofRows[half], others[half]);
    }
  }

  /// The four lanes of a row have two columns each of four tiles; afterwards each lane has all eight columns of one
  /// tile, that of its place. Lanes two places apart exchange two of their tiles, then neighbours one.
  KILN_DEVICE static Vec<float, 8> gathered(const MmaSums *tiles, int half) {
    const bool isUpper = laneIndex() & 2, isOdd = laneIndex() & 1;
    Vec<float, 8> row;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float pairs[2][2]; // of the places 0, 1 or 2, 3 with this one's parity; of an even and an odd tile
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float low = tiles[i].values[2 * half + e], high = tiles[2 + i].values[2 * half + e];
        const float other = shuffleXor(isUpper ? low : high, 2);
        pairs[0][i] = isUpper ? other : low;
        pairs[1][i] = isUpper ? high : other;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float other = shuffleXor(isOdd ? pairs[i][0] : pairs[i][1], 1);
        row[4 * i + e] = isOdd ? other : pairs[i][0];
        row[4 * i + 2 + e] = isOdd ? pairs[i][1] : other;
      }
    }
    return row;
  }
};

} // namespace kiln
