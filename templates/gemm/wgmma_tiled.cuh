#pragma once

#include "device/barrier.cuh"
#include "device/block.cuh"
#include "device/grid.cuh"
#include "device/shared_product.cuh"
#include "device/tensor_copy.cuh"
#include "device/vec.cuh"
#include "shape.cuh"

namespace kiln {

/// Constants that follow from a Config for elements of type T.
template <class Config, class T> struct WgmmaTiledShape {
  static constexpr int kM = Config::kTileM, kN = Config::kTileN, kStages = Config::kStages;
  static constexpr int kConsumers = Config::kConsumers, kTeams = Config::kTeams;
  static constexpr int kConsumerM = kM / kConsumers, kRowTiles = kConsumerM / 64;
  static constexpr int kThreads = int(kWarpgroupSize) * (kTeams * kConsumers + 1);
  static constexpr int kStep = int(kSwizzledRowBytes / sizeof(T)); // of the depth
  static constexpr int kSteps = ceilDiv(Config::kDepth, kStep);
  static constexpr u32 kBytesA = kM * kSwizzledRowBytes, kBytesB = kN * kSwizzledRowBytes;
  static constexpr int kTilesN = ceilDiv(Config::kCols, kN);
};

template <class Config, class T> struct WgmmaTiledStorage {
  using Shape = WgmmaTiledShape<Config, T>;
  alignas(kWarpgroupTileAlignment) u8 a[Shape::kStages][Shape::kBytesA];
  alignas(kWarpgroupTileAlignment) u8 b[Shape::kStages][Shape::kBytesB];
  SharedBarrier full[Shape::kStages], empty[Shape::kStages], turn[Shape::kTeams];
};

/// A place in the ring of stages.
template <int kStages> struct RingPlace {
  u32 stage = 0, parity = 0;

  KILN_DEVICE void skip(u32 places) {
    parity ^= (stage + places) / kStages & 1;
    stage = (stage + places) % kStages;
  }
  KILN_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// The position of a tile, in tiles.
struct TilePlace {
  int m, n;
};

template <class Config, class T> struct WgmmaTiled {
  using Shape = WgmmaTiledShape<Config, T>;
  static constexpr int kStages = Shape::kStages;
  WgmmaTiledStorage<Config, T> &shared;
  const int rows;

  KILN_DEVICE int tilesM() const { return ceilDiv(rows, Shape::kM); }
  KILN_DEVICE int tiles() const { return tilesM() * Shape::kTilesN; }

  KILN_DEVICE TilePlace place(int tile) const {
    constexpr int kGroup = 16;
    const int first = tile / (kGroup * Shape::kTilesN) * kGroup, inGroup = tile % (kGroup * Shape::kTilesN);
    const int height = min(kGroup, tilesM() - first);
    return {first + inGroup % height, inGroup / height};
  }

  KILN_DEVICE void loadA(const TensorMap &a, TilePlace tile, int step, u32 stage) const {
    copyBox(SharedAddress(shared.a[stage]), a, {step * Shape::kStep, tile.m * Shape::kM}, shared.full[stage]);
  }
  KILN_DEVICE void loadB(const TensorMap &b, TilePlace tile, int step, u32 stage) const {
    copyBox(SharedAddress(shared.b[stage]), b, {step * Shape::kStep, 0, 0, 0, tile.n * Shape::kN / 32},
            shared.full[stage]);
  }

  KILN_DEVICE void produce(const TensorMap &a, const TensorMap &b) const {
    RingPlace<kStages> at;
    const int stride = int(gridBlocksX());
    for (int tile = int(blockIndexX()); tile < tiles(); tile += stride)
      for (int step = 0; step < Shape::kSteps; ++step) {
        waitBarrier(shared.empty[at.stage], at.parity ^ 1);
        arriveExpecting(shared.full[at.stage], Shape::kBytesA + Shape::kBytesB);
        loadA(a, place(tile), step, at.stage);
        loadB(b, place(tile), step, at.stage);
        at.advance();
      }
  }

  KILN_DEVICE void release(u32 stage) const {
    if (laneIndex() == 0)
      arrive(shared.empty[stage]);
  }

  using Sums = WarpgroupSums<Shape::kN / 8>;

  KILN_DEVICE void startStep(Sums (&sums)[Shape::kRowTiles], u32 stage, int row, bool adds) const {
    const SharedAddress a = SharedAddress(shared.a[stage]) + u32(row) * kSwizzledRowBytes;
    const SharedAddress b(shared.b[stage]);
#pragma unroll
    for (int part = 0; part < 4; ++part)
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m)
        startSharedProduct<T>(sums[m], a + u32(m) * 64 * kSwizzledRowBytes, b, u32(part) * 32, adds || part > 0);
    commitProducts();
  }

  template <class Epilogue> KILN_DEVICE void consume(const Epilogue &epilogue) const {
    RingPlace<kStages> at;
    const int stride = int(gridBlocksX());
    const int consumer = int(warpgroupIndex()) - 1, team = consumer / Shape::kConsumers;
    const int row = consumer % Shape::kConsumers * Shape::kConsumerM;
    at.skip(team * Shape::kSteps);
    u32 turn = team == 0 ? 1 : 0;
    for (int tile = int(blockIndexX()) + team * stride; tile < tiles(); tile += stride * Shape::kTeams) {
      Sums sums[Shape::kRowTiles];
      if constexpr (Shape::kTeams > 1) {
        waitBarrier(shared.turn[team], turn);
        turn ^= 1;
      }
      waitBarrier(shared.full[at.stage], at.parity);
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m)
        fenceProducts(sums[m]);
      startStep(sums, at.stage, row, false);
      u32 last = at.stage;
      at.advance();
#pragma unroll 1
      for (int step = 1; step < Shape::kSteps; ++step) {
        waitBarrier(shared.full[at.stage], at.parity);
#pragma unroll
        for (int m = 0; m < Shape::kRowTiles; ++m)
          fenceProducts(sums[m]);
        startStep(sums, at.stage, row, true);
        waitProducts<1>(sums);
        release(last);
        last = at.stage;
        at.advance();
      }
      if constexpr (Shape::kTeams > 1)
        if (laneIndex() == 0)
          arrive(shared.turn[(team + 1) % Shape::kTeams]);
      at.skip((Shape::kTeams - 1) * Shape::kSteps);
      const TilePlace place = this->place(tile);
      const LanePlace lane{place.m * Shape::kM + row + int(warpIndex() % 4) * 16 + int(laneIndex()) / 4,
                           place.n * Shape::kN + int(laneIndex()) % 4 * 8};
      if (place.m * Shape::kM + Shape::kM <= rows)
        finish<true>(sums, last, epilogue, lane);
      else
        finish<false>(sums, last, epilogue, lane);
    }
  }

  static constexpr bool kColsAreExact = Config::kCols % Shape::kN == 0;
  static constexpr int kVectors = 2 * (Shape::kN / 32);
  KILN_DEVICE static Vec<float, 8> product(const Sums &sums, int i) {
    Vec<float, 8> values;
#pragma unroll
    for (int v = 0; v < 8; ++v)
      values[v] = sums.tiles[i / 2 * 4 + v / 2].values[i % 2 * 2 + v % 2];
    return values;
  }

  /// The first row and column of a lane.
  struct LanePlace {
    int row, col;
  };
  template <class Epilogue> struct Ahead {
    using Operands = typename Epilogue::template Operands<8>;
    static constexpr int kAll = kVectors * Shape::kRowTiles, kWords = sizeof(Operands) / 4 > 1 ? sizeof(Operands) / 4 : 1;
    static constexpr int kBudget =
        (Shape::kThreads == 512 ? 160 : 232) - Shape::kN / 2 * Shape::kRowTiles - EPILOGUE_RESERVE;
    static constexpr int kFirst = min(kAll, max(2, kBudget / kWords));
    KILN_DEVICE static constexpr int until(int i) { return min(kAll, kFirst + EPILOGUE_RATE * i / 4); }
    Operands operands[kAll];
  };

  KILN_DEVICE static int rowOf(LanePlace lane, int i) { return lane.row + i / kVectors * 64 + i % 2 * 8; }
  KILN_DEVICE static int colOf(LanePlace lane, int i) { return lane.col + i % kVectors / 2 * 32; }

  template <bool kWhole, class Epilogue>
  KILN_DEVICE void load(Ahead<Epilogue> &ahead, const Epilogue &epilogue, LanePlace lane, int i) const {
    const int row = rowOf(lane, i), col = colOf(lane, i);
    ahead.operands[i] =
        epilogue.template operands<8>(kWhole ? row : min(row, rows - 1), kColsAreExact ? col : min(col, Config::kCols - 8));
  }

  template <bool kWhole, class Epilogue>
  KILN_DEVICE void finish(Sums (&sums)[Shape::kRowTiles], u32 last, const Epilogue &epilogue, LanePlace lane) const {
      Ahead<Epilogue> ahead;
#pragma unroll
      for (int i = 0; i < Ahead<Epilogue>::kFirst; ++i)
        load<kWhole>(ahead, epilogue, lane, i);
      waitProducts<0>(sums);
      release(last);
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m)
        receive(sums[m]);
      emit<kWhole>(sums, ahead, epilogue, lane);
  }

  template <bool kWhole, class Epilogue>
  KILN_DEVICE void emit(const Sums (&sums)[Shape::kRowTiles], Ahead<Epilogue> &ahead, const Epilogue &epilogue,
                        LanePlace lane) const {
    using A = Ahead<Epilogue>;
#pragma unroll
    for (int i = 0; i < A::kAll; ++i) {
#pragma unroll
      for (int j = A::until(i); j < A::until(i + 1); ++j)
        load<kWhole>(ahead, epilogue, lane, j);
      const int row = rowOf(lane, i), col = colOf(lane, i);
      if ((kWhole || row < rows) && (kColsAreExact || col < Config::kCols))
        epilogue(product(sums[i / kVectors], i % kVectors), ahead.operands[i], row, col);
    }
  }
};

/// The kernel's body.
template <class Config, class T, class Epilogue>
KILN_DEVICE void wgmmaTiled(int rows, const TensorMap &a, const TensorMap &b, const Epilogue &epilogue) {
  using Shape = WgmmaTiledShape<Config, T>;
  allowDependents();
  WgmmaTiled<Config, T> block{dynamicShared<WgmmaTiledStorage<Config, T>>(), rows};
  if (threadIndex() == 0) {
    prefetchMap(a);
    prefetchMap(b);
    for (int i = 0; i < Shape::kStages; ++i) {
      initBarrier(block.shared.full[i], 1);
      initBarrier(block.shared.empty[i], 4 * Shape::kConsumers);
    }
    for (int i = 0; i < Shape::kTeams; ++i)
      initBarrier(block.shared.turn[i], 4 * Shape::kConsumers);
    fenceBarriers();
  }
  syncThreads();
  waitForDependencies();
  if (warpgroupIndex() == 0) {
    if constexpr (Shape::kThreads > 256)
      giveRegisters<Shape::kThreads == 512 ? 32 : 40>();
    if (threadIndex() == 0)
      block.produce(a, b);
  } else {
    if constexpr (Shape::kThreads > 256)
      takeRegisters<Shape::kThreads == 512 ? 160 : 232>();
    block.consume(epilogue);
  }
}

} // namespace kiln
