// Matrix products of the wgmma family: prompts, in the tensor cores of Hopper, operands loaded by TMA.
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"

#include <cmath>

namespace kiln {

/// Rows of the weight that a lane's neighbouring columns are permuted within: the innermost dimensions of its map.
constexpr int64_t permutedCols = 32;
/// Bytes of a row of an operand in shared memory, which is a step of the depth.
constexpr int64_t stepBytes = 128;

namespace {

/// The settings of a tile.
struct WgmmaBlock {
  int64_t m, n, stages, consumers, teams, blocks;

  explicit WgmmaBlock(const Tile &tile)
      : m(setting(tile, "tile_m")), n(setting(tile, "tile_n")), stages(setting(tile, "stages")),
        consumers(setting(tile, "consumers")), teams(setting(tile, "teams")), blocks(setting(tile, "blocks")) {}

  int64_t consumerRows() const { return m / consumers; }
  int64_t threads() const { return 128 * (1 + consumers * teams); }
  /// Registers of a thread that multiplies: sums, and what the epilogue and addresses take.
  int64_t registers() const { return consumerRows() / 64 * n / 2 + 40; }
  int64_t mostRegisters() const { return threads() > 384 ? 160 : 232; }
  /// As the template lays it out: stages, then barriers of 8 bytes, rounded up to the alignment of a stage.
  int64_t sharedBytes() const { return llvm::alignTo(stages * (m + n) * stepBytes + (2 * stages + teams) * 8, 1024); }
};

} // namespace

static bool acceptsWgmmaTiled(const Op &op, const Target &target, const DimBinding &) {
  if (!target.hasWgmma || !fitsTensorCores(op, target) || !hasLeftOperandInMemory(op))
    return false;
  const Type &weight = anchor(op)->operand(1)->type;
  return dtypeSize(weight.dtype) == 2 && *weight.shape[0].asConstant() % permutedCols == 0;
}

static bool isSoundWgmmaTiled(const Op &, const Tile &tile) {
  WgmmaBlock block(tile);
  return block.consumers > 0 && block.teams > 0 && block.threads() <= 512 && block.m > 0 && block.m <= 256 &&
         block.m % (64 * block.consumers) == 0 && block.n > 0 && block.n <= 256 && block.n % permutedCols == 0 &&
         block.registers() <= block.mostRegisters() && block.stages >= 2 && block.blocks > 0;
}

static std::vector<Tile> wgmmaTiledConfigurations(const Op &op, const Target &target, const DimBinding &) {
  struct Roles {
    int64_t consumers, teams, m;
  };
  static constexpr Roles roles[] = {{1, 2, 128}, {1, 2, 64},  {2, 1, 256}, {2, 1, 128},
                                    {1, 3, 64},  {3, 1, 192}, {1, 1, 64}};
  std::vector<Tile> tiles;
  for (auto [consumers, teams, m] : roles)
    for (int64_t n : {256, 224, 192, 160, 128, 96, 64, 32}) {
      int64_t stages = std::min<int64_t>(8, (target.sharedPerBlock - 1024) / ((m + n) * stepBytes));
      Tile tile = {{"blocks", static_cast<int64_t>(target.multiprocessors)},
                   {"consumers", consumers},
                   {"stages", stages},
                   {"teams", teams},
                   {"tile_m", m},
                   {"tile_n", n}};
      if (isSoundWgmmaTiled(op, tile))
        tiles.push_back(std::move(tile));
    }
  return tiles;
}

static Expr tilesOfWgmma(const Op &op, const WgmmaBlock &block) {
  MatmulProblem problem = matmulProblem(op);
  return ceilDiv(problem.rows, Expr(block.m)) * ceilDiv(problem.cols, Expr(block.n));
}

static Launch launchWgmmaTiled(const Op &op, const Tile &tile) {
  WgmmaBlock block(tile);
  return {.grid = {min(Expr(block.blocks), tilesOfWgmma(op, block)), Expr(1), Expr(1)},
          .threads = block.threads(),
          .dynamicShared = block.sharedBytes(),
          .resident = 1};
}
