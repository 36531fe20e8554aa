// Matrix products of the mma family: many rows, in tensor cores.
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "kernels/families/matmul/DepthCut.h"
#include "ops/Region.h"

#include <cmath>

namespace kiln {

//===----------------------------------------------------------------------===//
// gemm_mma
//===----------------------------------------------------------------------===//

/// Whether tensor cores may multiply the operands: elements of 16 bits, or of 32 bits that may be rounded.
static bool hasTensorTypes(const Op &product) {
  DType dtype = product.operand(1)->type.dtype;
  bool isTf32 = dtype == DType::F32 && product.identAttribute("precision", "f32") == "tf32";
  return (isTf32 || dtype == DType::BF16 || dtype == DType::F16) && product.operand(0)->type.dtype == dtype;
}

bool fitsTensorCores(const Op &op, const Target &target) {
  const Op &product = *anchor(op);
  if (target.computeCapability() < 80 || !product.is(OpKind::matmul) || !product.boolAttribute("transpose_b"))
    return false;
  const Type &weight = product.operand(1)->type;
  std::optional<int64_t> depth = weight.lastDim().asConstant();
  return hasTensorTypes(product) && depth && *depth * dtypeSize(weight.dtype) % 16 == 0 &&
         weight.shape[0].asConstant() && product.operand(1)->isWeight();
}

static bool acceptsMmaTiled(const Op &op, const Target &target, const DimBinding &) {
  return fitsTensorCores(op, target) && hasLeftOperandInMemory(op);
}

bool wantsNormOutside(const Op &op, const Target &target) {
  // With few tokens per sequence, rows are few and normalised when they are read, unless copies read them, as on
  // Hopper.
  if (!fitsTensorCores(op, target))
    return false;
  const Op &product = *anchor(op);
  return !hasFewTokens(op, product.result()->type) ||
         (dtypeSize(product.operand(1)->type.dtype) == 2 && target.hasWgmma);
}

namespace {

/// The properties of a configuration that the model uses.
struct TiledBlock {
  double m, n, warpM, warpN;
  int64_t stages, warps;

  explicit TiledBlock(const Tile &tile)
      : m(static_cast<double>(setting(tile, "tile_m"))), n(static_cast<double>(setting(tile, "tile_n"))),
        warpM(m / static_cast<double>(setting(tile, "warps_m"))),
        warpN(n / static_cast<double>(setting(tile, "warps_n"))), stages(setting(tile, "stages")),
        warps(setting(tile, "warps_m") * setting(tile, "warps_n")) {}

  /// Shared memory, as in the template: rows of 128 bytes.
  int64_t sharedBytes() const { return stages * static_cast<int64_t>(m + n) * 128; }
  /// Registers of a thread: sums, two sets of operands, addresses.
  double registers() const { return warpM * warpN / 32 + 2 * (warpM + warpN) / 4 + 40; }

  double resident(const Target &target) const {
    double byShared = std::floor(target.sharedPerMultiprocessor / (static_cast<double>(sharedBytes()) + 1024));
    double byRegisters = std::floor(65536 / (32 * static_cast<double>(warps) * std::min(255.0, registers())));
    return std::max(1.0, std::min({byShared, byRegisters, 16.0}));
  }

  /// The share of the tensor cores' rate that remains while operands are read from shared memory, at 128 bytes per
  /// cycle. With 64 × 64 per warp on Hopper, both take about the same time.
  double efficiency(const Target &target) const {
    double macsPerCycle = target.mmaRate / 2 / target.multiprocessors / target.times.clock;
    double multiply = warpM * warpN * 16 / macsPerCycle;
    double read = ((warpM + warpN) * 32 + (m + n) * 32 / static_cast<double>(warps)) / 128;
    return multiply / (std::max(multiply, read) + target.times.mmaTiled.unhidden * std::min(multiply, read));
  }
};

} // namespace

static std::vector<Tile> mmaTiledConfigurations(const Op &op, const Target &target, const DimBinding &) {
  struct Shape {
    int64_t m, n, warpsM, warpsN;
  };
  static constexpr Shape shapes[] = {{128, 256, 2, 4}, {256, 128, 4, 2}, {192, 128, 4, 2}, {128, 128, 2, 2},
                                     {128, 128, 4, 2}, {64, 256, 1, 4},  {96, 128, 2, 2},  {64, 128, 2, 2},
                                     {128, 64, 4, 1},  {64, 64, 2, 2},   {32, 128, 1, 4},  {32, 64, 1, 2},
                                     {16, 128, 1, 4}};
  // Rounding factors to tf32 takes registers.
  const double mostOfWarp = anchor(op)->operand(1)->type.dtype == DType::F32 ? 48 * 64 : 64 * 64;
  std::vector<Tile> tiles;
  for (const Shape &shape : shapes)
    for (int64_t stages : {4, 3, 5}) {
      Tile tile = {{"stages", stages},
                   {"tile_m", shape.m},
                   {"tile_n", shape.n},
                   {"warps_m", shape.warpsM},
                   {"warps_n", shape.warpsN}};
      TiledBlock block(tile);
      if (block.sharedBytes() <= target.sharedPerBlock && block.warpM * block.warpN <= mostOfWarp)
        tiles.push_back(std::move(tile));
    }
  return tiles;
}

/// The conditions that the template asserts.
static bool isSoundMmaTiled(const Op &, const Tile &tile) {
  const int64_t m = setting(tile, "tile_m"), n = setting(tile, "tile_n"), warpsM = setting(tile, "warps_m"),
                warpsN = setting(tile, "warps_n");
  const int64_t rowsAtOnce = 32 * warpsM * warpsN / 8; // that the threads copy, each 16 of a row's 128 bytes
  return m % (16 * warpsM) == 0 && n % (32 * warpsN) == 0 && (m / warpsM) * (n / warpsN) <= 64 * 64 &&
         m % rowsAtOnce == 0 && n % rowsAtOnce == 0 && rowsAtOnce % 8 == 0 && setting(tile, "stages") >= 2;
}

static Expr tilesOf(const Op &op, const Tile &tile) {
  MatmulProblem problem = matmulProblem(op);
  return ceilDiv(problem.cols, Expr(setting(tile, "tile_n"))) * ceilDiv(problem.rows, Expr(setting(tile, "tile_m")));
}

/// Not the order of gemm_wgmma: on an H200 some results of equal cuts had other bits.
static AttributeMap orderOfMmaTiled(const Op &, const Tile &) {
  return {{"by", Attribute::ident("mma")}, {"chains", 1}, {"ranges", 1}};
}

static Launch launchMmaTiled(const Op &op, const Tile &tile) {
  MatmulProblem problem = matmulProblem(op);
  TiledBlock block(tile);
  return {.grid = {ceilDiv(problem.cols, Expr(setting(tile, "tile_n"))),
                   ceilDiv(problem.rows, Expr(setting(tile, "tile_m"))), Expr(1)},
          .threads = 32 * block.warps,
          .dynamicShared = block.sharedBytes()};
}

/// The time with `splits` blocks per tile, each with a part of the depth.
static double estimateMmaBlocks(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims,
                                double splits) {
  MatmulProblem problem = matmulProblem(op);
  double rows = valueAt(problem.rows, dims), cols = valueAt(problem.cols, dims);
  int64_t bytes = dtypeSize(anchor(op)->operand(1)->type.dtype);
  // In elements of 16 bits, since tensor cores work on words.
  double depth = static_cast<double>(valueAt(problem.depth, dims) * bytes) / 2 / splits;
  TiledBlock block(tile);
  double blocks = std::ceil(rows / block.m) * std::ceil(cols / block.n) * splits, resident = block.resident(target);
  double rate = target.mmaRate / target.multiprocessors * block.efficiency(target);
  // Eight warps per multiprocessor, two for each tensor core, keep the tensor cores busy; fewer leave gaps.
  auto secondsFor = [&](double together) {
    double warps = together * static_cast<double>(block.warps);
    double multiply = together * 2 * block.m * block.n * depth / (rate * std::min(1.0, std::sqrt(warps / 8)));
    // Start and end of a block (first steps arrive, last results leave) are hidden by another block's products, if
    // there is one.
    double ends = target.times.mmaTiled.ends +
                  block.m * block.n / static_cast<double>(block.warps) * target.times.mmaTiled.output;
    return multiply + (together > 1 ? 0.5 : 1.0) * ends;
  };
  double perMultiprocessor = std::ceil(blocks / target.multiprocessors);
  double sets = std::floor(perMultiprocessor / resident), rest = perMultiprocessor - sets * resident;
  double arithmetic = sets * secondsFor(resident) + (rest > 0 ? secondsFor(rest) : 0);
  double busy = std::min(1.0, blocks / target.multiprocessors);
  double l2 = blocks * (block.m + block.n) * depth * 2 / (target.l2Rate * busy);
  double memory = bytesMovedAt(op, dims) / target.memoryRate;
  return target.launchSeconds + std::max({arithmetic, l2, memory});
}

static double estimateMmaTiled(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  return estimateMmaBlocks(op, tile, target, dims, 1);
}

//===----------------------------------------------------------------------===//
// gemm_mma_split_k
//===----------------------------------------------------------------------===//

/// With more rows there are enough tiles, and the parts would not fit in L2.
constexpr int64_t mostSplitRows = 1024;

static bool acceptsSplit(const Op &op, const Target &target, const DimBinding &upper) {
  // At least two parts of the depth with two steps each.
  return acceptsMmaTiled(op, target, upper) && valueAt(matmulProblem(op).rows, upper) <= mostSplitRows &&
         stepsOfDepth(op) >= 4;
}

static std::vector<Tile> splitConfigurations(const Op &op, const Target &target, const DimBinding &upper) {
  std::vector<Tile> tiles;
  int64_t steps = stepsOfDepth(op);
  for (const Tile &tile : mmaTiledConfigurations(op, target, upper)) {
    TiledBlock block(tile);
    // A warp of 64 × 64 has no registers left for the bounds of its part.
    if (block.warpM * block.warpN > 48 * 64 || block.stages > 4)
      continue;
    for (int64_t splits : {2, 3, 4, 6, 8}) {
      int64_t most = (steps + splits - 1) / splits; // steps of a part; the last part has at least one
      if (most < 2 || most * (splits - 1) >= steps)
        continue;
      tiles.push_back(tile);
      tiles.back().insert_or_assign("splits", splits);
    }
  }
  return tiles;
}

/// Whether every part has at least one step, too.
static bool isSoundSplit(const Op &op, const Tile &tile) {
  int64_t steps = stepsOfDepth(op), splits = setting(tile, "splits");
  return isSoundMmaTiled(op, tile) && llvm::divideCeil(steps, splits) * (splits - 1) < static_cast<uint64_t>(steps);
}

/// All ranges but the last have as many steps; where that one has fewer, others cut the depth elsewhere.
static AttributeMap orderOfSplit(const Op &op, const Tile &tile) {
  int64_t splits = setting(tile, "splits");
  AttributeMap order = {{"by", Attribute::ident("mma")}, {"chains", 1}, {"ranges", splits}};
  if (stepsOfDepth(op) % splits != 0)
    order.insert({"cut", Attribute::ident("ceil")});
  return order;
}

static Launch launchSplit(const Op &op, const Tile &tile) {
  Launch launch = launchMmaTiled(op, tile);
  launch.grid[2] = Expr(setting(tile, "splits"));
  launch.dynamicShared += 128; // MmaTiledSplitStorage: a flag with its alignment
  return launch;
}

static double estimateSplit(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  auto splits = static_cast<double>(setting(tile, "splits"));
  double parts = static_cast<double>(valueAt(tilesOf(op, tile), dims)) * TiledBlock(tile).m * TiledBlock(tile).n * 4;
  // All blocks write their parts; one block per tile reads them, and waits for the slowest.
  double tiles = static_cast<double>(valueAt(tilesOf(op, tile), dims));
  double readers = std::min(1.0, tiles / target.multiprocessors);
  return estimateMmaBlocks(op, tile, target, dims, splits) + splits * parts / target.l2Rate * (1 + 1 / readers) +
         target.times.mmaSplit.sum;
}

static Expr splitWorkspace(const Op &op, const Tile &tile) {
  return tilesOf(op, tile) * Expr(setting(tile, "tile_m") * setting(tile, "tile_n") * setting(tile, "splits") * 4);
}

const KernelFamily mmaTiledSplitFamily = {
    .name = "gemm_mma_split_k",
    .summary = "matrix product in tensor cores, parts of the depth in blocks of their own",
    .header = "gemm/mma_tiled_split.cuh",
    .body = "mmaTiledSplit",
    .form = KernelForm::TensorMatmul,
    .waitsItself = true,
    .readsAhead = true,
    .accepts = acceptsSplit,
    .configurations = splitConfigurations,
    .isSound = isSoundSplit,
    .order = orderOfSplit,
    .launch = launchSplit,
    .estimate = estimateSplit,
    .workspace = splitWorkspace,
    .counters = tilesOf,
};

const KernelFamily mmaTiledFamily = {
    .name = "gemm_mma",
    .summary = "matrix product in tensor cores by mma.sync, operands staged by asynchronous copies",
    .header = "gemm/mma_tiled.cuh",
    .body = "mmaTiled",
    .form = KernelForm::TensorMatmul,
    .waitsItself = true,
    .readsAhead = true,
    .accepts = acceptsMmaTiled,
    .configurations = mmaTiledConfigurations,
    .isSound = isSoundMmaTiled,
    .order = orderOfMmaTiled,
    .launch = launchMmaTiled,
    .estimate = estimateMmaTiled,
};

} // namespace kiln
