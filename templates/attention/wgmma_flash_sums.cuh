//===- wgmma_flash_sums.cuh - what wgmma_flash.cuh adds up -------------------------===//
//
// The sums of a thread over a range of keys, and how those of another range are added: one that the block has kept in
// shared memory, or one that the other block of the cluster sends there.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/tensor_flash.cuh"
#include "attention/wgmma_flash_shape.cuh"
#include "device/barrier.cuh"
#include "device/base.cuh"
#include "device/cluster.cuh"
#include "device/index.cuh"
#include "device/math.cuh"
#include "device/vec.cuh"
#include "device/warpgroup.cuh"

namespace kiln {

template <class Config> struct WgmmaFlashSums {
  using Shape = WgmmaFlashShape<Config>;
  using Storage = WgmmaFlashStorage<Config>;

  WarpgroupSums<Shape::kTilesOfDims> out = {}; // weights · values
  FlashRows rows;
  float shifts[2] = {0, 0}; // of exponents below the scores, by the references
  FlashRows::Normalization normalization;

  KILN_DEVICE void normalize() { normalization = rows.normalization(); }

  /// Stores the sums in shared memory.
  KILN_DEVICE void keep(Storage &shared) const {
    eachOf(shared.other.range, [](float *place, const Vec<float, 4> &values) { storeShared(place, values); });
  }

  /// Sends the sums to the first block of the cluster, which has called expectOther() in one thread.
  KILN_DEVICE void handOver(Storage &shared) const {
    const auto handedOver = inBlock(&shared.other.handedOver, 0);
    eachOf(shared.other.range,
           [&](float *place, const Vec<float, 4> &values) { storeAsync(inBlock(place, 0), values, handedOver); });
  }
  KILN_DEVICE static void expectOther(Storage &shared) {
    arriveExpecting(shared.other.handedOver, u32(sizeof(WgmmaFlashRange<Shape>)));
  }
  KILN_DEVICE void addHandedOver(Storage &shared, float scale) {
    waitClusterBarrier(shared.other.handedOver, 0);
    addOther</*kIsEarlier=*/false>(shared, scale);
  }

  /// Adds the sums of the range in shared memory, an earlier one or a later one. Both round alike.
  template <bool kIsEarlier> KILN_DEVICE void addOther(const Storage &shared, float scale) {
    const WgmmaFlashRange<Shape> &range = shared.other.range;
    const u32 thread = threadIndex();
    const Vec<float, 4> ofRows = load<4>(range.rows[thread]);
    const FlashRows other = {{ofRows[0], ofRows[1]}, {ofRows[2], ofRows[3]}}, later = kIsEarlier ? rows : other;
    if (kIsEarlier)
      rows = other;
    float ofEarlier[2], ofLater[2];
    rows.merge(later, scale, ofEarlier, ofLater);
#pragma unroll
    for (int i = 0; i < Shape::kTilesOfDims; ++i) {
      const Vec<float, 4> others = load<4>(range.out[i][thread]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float &own = out.tiles[i].values[e];
        own = kIsEarlier ? fma(own, ofLater[e / 2], others[e] * ofEarlier[e / 2])
                         : fma(others[e], ofLater[e / 2], own * ofEarlier[e / 2]);
      }
    }
    normalize();
  }

  template <class Epilogue>
  KILN_DEVICE void finish(const FlashTile<Config> &tile, int warpQuery, const Epilogue &epilogue) const {
    if constexpr (Shape::kTilesOfDims % 4 == 0)
      FlashRows::finishWide(out.tiles, normalization, tile, warpQuery, epilogue);
    else
      FlashRows::finish(out.tiles, normalization, tile, warpQuery, epilogue);
  }

private:
  /// Passes the places of the thread's sums in a range, and the sums.
  template <class Put> KILN_DEVICE void eachOf(WgmmaFlashRange<Shape> &range, Put &&put) const {
    const u32 thread = threadIndex();
#pragma unroll
    for (int i = 0; i < Shape::kTilesOfDims; ++i) {
      const float(&from)[4] = out.tiles[i].values;
      put(range.out[i][thread], Vec<float, 4>{from[0], from[1], from[2], from[3]});
    }
    put(range.rows[thread], Vec<float, 4>{rows.largest[0], rows.largest[1], rows.sums[0], rows.sums[1]});
  }
};

} // namespace kiln
