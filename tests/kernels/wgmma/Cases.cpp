#include "kernels/wgmma/Cases.h"

namespace kiln {

std::vector<AttentionCase> wgmmaFlashCases() {
  /// `resident`: blocks per multiprocessor for which the compiler must leave registers.
  struct Tile {
    int queries, keys, stages, resident;
  };
  auto make = [](DType type, int headSize, Tile tile, bool causal = true, int window = 0) {
    return Variant("wgmma", "wgmma_flash_attention", type,
                   {{"kHeadSize", std::to_string(headSize)},
                    {"kTileQueries", std::to_string(tile.queries)},
                    {"kTileKeys", std::to_string(tile.keys)},
                    {"kStages", std::to_string(tile.stages)},
                    {"kResident", std::to_string(tile.resident)},
                    {"kCausal", causal ? "true" : "false"},
                    {"kWindow", std::to_string(window)}});
  };
  return {
      {make(DType::BF16, 64, {128, 64, 2, 2}),
       2,
       300,
       300,
       {0, 0}}, // one warpgroup ends a tile of keys before the other
      {make(DType::F16, 64, {64, 64, 3, 4}), 2, 100, 170, {3, 50}},
      {make(DType::BF16, 64, {64, 128, 2, 2}), 1, 200, 290, {90}},
      {make(DType::BF16, 80, {64, 64, 2, 3}), 2, 70, 75, {5}}, // a slab of 64 elements and one of 16
      {make(DType::F16, 16, {64, 64, 4, 4}), 1, 33, 38, {5}},
      {make(DType::BF16, 96, {128, 64, 2, 1}), 1, 140, 140, {0}},
      {make(DType::F16, 112, {64, 64, 2, 2}), 1, 70, 70, {0}}, // three slabs of 16
      {make(DType::BF16, 128, {64, 64, 2, 2}), 1, 130, 130, {0}},
      {make(DType::BF16, 64, {64, 64, 2, 4}), 1, 1, 1, {0}}, // one visible key
      {make(DType::F16, 64, {128, 64, 2, 2}, /*causal=*/false), 1, 20, 150, {0}},
      {make(DType::BF16, 64, {128, 64, 3, 2}, /*causal=*/true, /*window=*/16), 1, 200, 207, {7}},
      {make(DType::F16, 32, {64, 64, 2, 4}, /*causal=*/true, /*window=*/3), 1, 190, 197, {7}},
  };
}

} // namespace kiln
