// Matrix products of the wgmma family: prompts, in the tensor cores of Hopper, with operands loaded by TMA.
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "kernels/families/WgmmaOperands.h"
#include "ops/Region.h"

#include <cmath>

namespace kiln {

namespace {

/// The settings of a tile.
struct WgmmaBlock {
  int64_t m, n, stages, consumers, teams, blocks;

  explicit WgmmaBlock(const Tile &tile)
      : m(setting(tile, "tile_m")), n(setting(tile, "tile_n")), stages(setting(tile, "stages")),
        consumers(setting(tile, "consumers")), teams(setting(tile, "teams")), blocks(setting(tile, "blocks")) {}

  int64_t threads() const { return 128 * (1 + consumers * teams); }
  /// Registers of a consumer: its sums, and about as many as the epilogue needs.
  int64_t registers() const { return m / consumers * n / 128 + 40; }
  /// Those that a consumer gets from the producer, and those that each thread has at the start, which must be enough
  /// for the sums of one instruction.
  int64_t mostRegisters() const { return threads() > 384 ? 160 : 240; }
  bool canStart() const { return n / 2 + 32 <= 65536 / threads(); }
  /// As the template lays it out: the stages, and barriers of 8 bytes.
  int64_t sharedBytes() const {
    return static_cast<int64_t>(llvm::alignTo(stages * (m + n) * stepBytes + (2 * stages + teams) * 8, 1024));
  }
};

} // namespace

static bool acceptsWgmmaTiled(const Op &op, const Target &target, const DimBinding &) {
  return acceptsMappedProduct(op, target);
}

static bool isSoundWgmmaTiled(const Op &, const Tile &tile) {
  WgmmaBlock block(tile);
  return block.consumers > 0 && block.teams > 0 && block.consumers * block.teams <= 3 && block.m > 0 &&
         block.m <= 256 && block.m % (64 * block.consumers) == 0 && block.n > 0 && block.n <= 256 &&
         block.n % permutedRows == 0 && block.registers() <= block.mostRegisters() && block.canStart() &&
         block.stages >= 2 && block.blocks > 0;
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

static Launch launchWgmmaTiled(const Op &op, const Tile &tile) {
  WgmmaBlock block(tile);
  MatmulProblem problem = matmulProblem(op);
  Expr tiles = ceilDiv(problem.rows, Expr(block.m)) * ceilDiv(problem.cols, Expr(block.n));
  return {.grid = {min(Expr(block.blocks), tiles), Expr(1), Expr(1)},
          .threads = block.threads(),
          .dynamicShared = block.sharedBytes(),
          .resident = 1};
}

static std::vector<OperandMap> mapsOfWgmmaTiled(const Op &op, const Tile &tile) {
  WgmmaBlock block(tile);
  return {mapOfLeft(op, block.m), mapOfWeight(op, block.n)};
}

static double estimateWgmmaTiled(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  const KernelTimes::WgmmaTiled &times = target.times.wgmmaTiled;
  MatmulProblem problem = matmulProblem(op);
  WgmmaBlock block(tile);
  auto m = static_cast<double>(block.m), n = static_cast<double>(block.n), teams = static_cast<double>(block.teams);
  double rows = static_cast<double>(valueAt(problem.rows, dims)),
         cols = static_cast<double>(valueAt(problem.cols, dims));
  double depth = static_cast<double>(valueAt(problem.depth, dims) * dtypeSize(anchor(op)->operand(1)->type.dtype));
  double tiles = std::ceil(rows / m) * std::ceil(cols / n);
  double perBlock = std::ceil(tiles / std::min(static_cast<double>(block.blocks), tiles));
  // Operands of the next steps arrive while the tensor cores multiply. Rows of 128 bytes are 64 elements.
  double flopsPerCycle = target.tensorRate / target.multiprocessors / target.times.clock;
  double multiply = 2 * m * n * stepBytes / 2 / (flopsPerCycle * times.rate),
         load = (m + n) * stepBytes / times.loadBytes;
  double products = std::ceil(depth / stepBytes) * (std::max(multiply, load) + times.gap) / target.times.clock;
  double output = times.output + m * n / static_cast<double>(block.consumers) * times.element;
  // A team's epilogue is hidden by the products of others, but for the last one.
  double inTurn = std::ceil(perBlock / teams) * (products + output);
  double blockTime = teams == 1 ? inTurn : std::max(perBlock * products, inTurn) + output;
  return target.launchSeconds + times.ends + std::max(blockTime, bytesMovedAt(op, dims) / target.memoryRate);
}

const KernelFamily wgmmaTiledFamily = {
    .name = "gemm_wgmma",
    .summary = "matrix product in the tensor cores of Hopper by wgmma, operands loaded by TMA",
    .header = "gemm/wgmma_tiled.cuh",
    .body = "wgmmaTiled",
    .form = KernelForm::TensorMatmul,
    .waitsItself = true,
    .readsAhead = true,
    .accepts = acceptsWgmmaTiled,
    .configurations = wgmmaTiledConfigurations,
    .isSound = isSoundWgmmaTiled,
    .launch = launchWgmmaTiled,
    .estimate = estimateWgmmaTiled,
    .maps = mapsOfWgmmaTiled,
};

} // namespace kiln
