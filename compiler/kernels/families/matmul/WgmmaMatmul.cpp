// Matrix products of the wgmma family: prompts, in the tensor cores of Hopper, with operands loaded by TMA.
#include "kernels/cost/Problem.h"
#include "kernels/cost/Work.h"
#include "kernels/families/Families.h"
#include "kernels/families/Halves.h"
#include "kernels/families/matmul/DepthCut.h"
#include "kernels/families/matmul/WgmmaOperands.h"
#include "ops/Region.h"
#include "support/model/TargetName.h"

#include <cmath>

namespace kiln {

/// Stages of a block of half the size: fewer do not hide the latency of L2.
constexpr int64_t leastStagesOfHalf = 4;
/// Stages of a block that takes all it can. More hold more of the weight before the kernel in front has ended, but
/// leave less room for the next kernel's: that is for trials to find out.
constexpr int64_t usualStages = 8;
/// Bytes of the usual stages of a block whose warps hold rows for statistics: with more, prompts were slower
/// (docs/experiments/prompts.md). Tiles with more stages than usual are for trials, which may find otherwise.
constexpr int64_t mostBytesBesideHeldRows = 192 * 1024;

namespace {

/// The settings of a tile.
struct WgmmaBlock {
  int64_t m, n, stages, consumers, teams, blocks, clusterM, clusterN, parts, ranges, shared;
  bool mails, holdsRows = false; ///< whether warps beside the producer hold rows in registers, for their statistics
  int64_t rowBytes = 0;          ///< of those that come to shared memory for that

  WgmmaBlock(const Op &op, const Tile &tile)
      : m(setting(tile, "tile_m")), n(setting(tile, "tile_n")), stages(setting(tile, "stages")),
        consumers(setting(tile, "consumers")), teams(setting(tile, "teams")), blocks(setting(tile, "blocks")),
        clusterM(setting(tile, "cluster_m")), clusterN(setting(tile, "cluster_n")), parts(setting(tile, "parts")),
        ranges(setting(tile, "ranges")), shared(setting(tile, "shared")), mails(rowMailBytes(op) > 0) {
    const Type &left = anchor(op)->operand(0)->type;
    const int64_t depth = *left.lastDim().asConstant();
    if (computesStatistics(op) && teams == 1) {
      holdsRows = canHoldRows(depth);
      rowBytes = holdsRows ? 0 : depth * dtypeSize(left.dtype);
    }
  }

  int64_t threads() const { return 128 * (1 + consumers * teams); }
  /// Sums of a thread; with ranges, it has two sets.
  int64_t sums() const { return m / consumers * n / 128; }
  int64_t sumsOfSets() const { return sums() * std::min<int64_t>(ranges, 2); }
  /// Whether the warps beside the producer have registers for rows of so many elements: if they give none to consumers,
  /// or beside two consumers with few sums.
  bool canHoldRows(int64_t depth) const {
    return threads() <= 256 || (threads() == 384 && sumsOfSets() <= 128 && depth <= 1024);
  }
  /// Registers of a consumer: its sums, and about as many as the epilogue needs.
  int64_t registers() const { return sumsOfSets() + 40; }
  /// Those that a consumer gets from the producer, and those that each thread has at the start, which must be enough
  /// for the sums of one instruction. Warps beside the producer that compute statistics keep some.
  int64_t mostRegisters() const { return threads() > 384 ? 160 : threads() > 256 && mails ? 232 : 240; }
  bool canStart() const { return n / 2 + 32 <= 65536 / threads(); }
  /// As the template lays it out: the stages and their barriers, the sums of other parts, and operands of rows. A block
  /// may ask for more.
  int64_t sharedBytes() const {
    int64_t ofParts = parts == 1 ? 0 : m * n / parts * (parts - 1) * 4 + 16;
    int64_t bytes = stages * ((m + n) * stepBytes + 2 * barrierBytes) + teams * barrierBytes + ofParts;
    if (mails) // behind the sums of other parts, or a byte without any
      bytes = static_cast<int64_t>(llvm::alignTo(bytes + (parts == 1 ? 1 : 0), 16)) +
              std::max<int64_t>(6 * rowBytes, 16) + teams * (8 * m + 16) + 32;
    return std::max(shared, static_cast<int64_t>(llvm::alignTo(bytes, 1024)));
  }

  int64_t cluster() const { return clusterM * clusterN * parts; }
  bool copiesToOthers() const { return clusterM * clusterN > 1; }
  /// Whether every block copies whole groups of rows for others, and finishes whole rows of sums or groups of columns.
  bool sharesEvenly() const {
    const int64_t permuted = permutedRowsOf(n);
    if (m % (8 * clusterN) != 0 || n % (permuted * clusterM) != 0)
      return false;
    int64_t groups = n / permuted, vectors = groups * (m / consumers / 32), own = vectors / parts;
    return vectors % parts == 0 && (own % groups == 0 || groups % own == 0);
  }
  /// Blocks of a multiprocessor. Without clusters, one block takes all it can.
  int64_t resident() const {
    return cluster() > 1 && threads() <= 256 && registers() <= 72 && sharedBytes() <= 112 * 1024 ? 2 : 1;
  }
};

} // namespace

static bool acceptsWgmmaTiled(const Op &op, const Target &target, const DimBinding &) {
  return acceptsMappedProduct(op, target);
}

static bool isSoundWgmmaTiled(const Op &op, const Tile &tile) {
  WgmmaBlock block(op, tile);
  bool isTile = block.consumers > 0 && block.teams > 0 && block.consumers * block.teams <= 3 && block.m > 0 &&
                block.m <= 256 && block.m % (64 * block.consumers) == 0 && block.n > 0 && block.n <= 256 &&
                block.n % 8 == 0 && block.registers() <= block.mostRegisters() && block.canStart() &&
                block.stages >= 2 && block.blocks > 0;
  auto isShared = [](int64_t blocks) { return isPowerOfTwo(blocks) && blocks <= maxClusterBlocks; };
  if (!isTile || !isShared(block.clusterM) || !isShared(block.clusterN) || !isShared(block.parts) || block.ranges < 1)
    return false;
  // A thread hands out statistics of 8 neighbouring columns, or a quad does.
  if (permutedRowsOf(block.n) == 16 && op.region() && findInRegion(op, OpKind::groupMean))
    return false;
  bool isCut = block.parts == 1 || (block.teams == 1 && block.ranges == 1);
  return block.cluster() <= std::min(maxClusterBlocks, block.blocks) && block.sharesEvenly() && isCut &&
         block.parts * block.ranges <= stepsOfDepth(op);
}

namespace {

/// The warpgroups of a block and the rows of its tile; what blocks of a cluster share, and the ranges of a block's
/// depth.
struct Roles {
  int64_t consumers, teams, m;
};
struct Shares {
  int64_t m = 1, n = 1, parts = 1, ranges = 1;
};

} // namespace

/// Clusters whose blocks have a multiprocessor each: those of more than two blocks do not fill the GPU.
static int64_t clustersAtOnce(const WgmmaBlock &block, const Target &target) {
  const double share = block.cluster() > 2 ? target.times.wgmmaTiled.clusteredShare : 1;
  return static_cast<int64_t>(target.multiprocessors * share) / block.cluster();
}

/// The tile with as many stages as a block of so many bytes has room for, up to so many, or steps.
static Tile tileOf(const Op &op, const Target &target, Roles roles, int64_t n, Shares shares, int64_t bytes,
                   int64_t mostStages = usualStages) {
  Tile tile = {{"blocks", static_cast<int64_t>(target.multiprocessors)},
               {"cluster_m", shares.m},
               {"cluster_n", shares.n},
               {"consumers", roles.consumers},
               {"parts", shares.parts},
               {"ranges", shares.ranges},
               {"shared", 1}, // what it needs
               {"stages", 0},
               {"teams", roles.teams},
               {"tile_m", roles.m},
               {"tile_n", n}};
  WgmmaBlock block(op, tile);
  // Without parts, steps of the next tile follow those of the last.
  auto most = std::max<int64_t>(block.parts == 1 ? usualStages : 2,
                                static_cast<int64_t>(llvm::divideCeil(stepsOfDepth(op), block.parts)));
  int64_t operands = (roles.m + n) * stepBytes, room = bytes - block.sharedBytes();
  if (block.holdsRows && mostStages == usualStages)
    most = std::min(most, mostBytesBesideHeldRows / operands);
  tile.insert_or_assign("stages", std::min({mostStages, most, room / (operands + 2 * barrierBytes)}));
  if (block.cluster() > 2)
    tile.insert_or_assign("blocks", clustersAtOnce(block, target) * block.cluster());
  return tile;
}

/// The blocks of a launch.
static Expr gridOf(const Op &op, const WgmmaBlock &block) {
  MatmulProblem problem = matmulProblem(op);
  Expr tiles =
      ceilDiv(problem.rows, Expr(block.m * block.clusterM)) * ceilDiv(problem.cols, Expr(block.n * block.clusterN));
  Expr clusters = block.parts > 1 ? tiles : min(Expr(block.blocks / block.cluster()), tiles);
  return clusters * Expr(block.cluster());
}

/// The tile, whose blocks have a multiprocessor each if there are enough of these.
static Tile spread(const Op &op, const Target &target, Tile tile, const DimBinding &dims) {
  const WgmmaBlock block(op, tile);
  const int64_t forOne = target.sharedOfAtMost(1);
  const int64_t blocks = valueAt(gridOf(op, block), dims);
  if (block.sharedBytes() < forOne && blocks <= clustersAtOnce(block, target) * block.cluster())
    tile.insert_or_assign("shared", forOne);
  return tile;
}

/// The sound tiles of these roles and widths, each also with less shared memory if it is small.
static void addTiles(std::vector<Tile> &tiles, const Op &op, const Target &target, const DimBinding &dims,
                     ArrayRef<Roles> roles, ArrayRef<int64_t> cols, Shares shares) {
  for (Roles role : roles)
    for (int64_t n : cols) {
      Tile tile = tileOf(op, target, role, n, shares, target.sharedPerBlock);
      if (isSoundWgmmaTiled(op, tile)) {
        tile = spread(op, target, std::move(tile), dims);
        tiles.push_back(tile);
      }
      // Beside a block of half the size, one of the next kernel has room, and reads its first weights early.
      Tile half = tileOf(op, target, role, n, shares, target.sharedOfEach(2));
      if (WgmmaBlock(op, half).threads() <= 256 && setting(half, "stages") >= leastStagesOfHalf && half != tile &&
          isSoundWgmmaTiled(op, half))
        tiles.push_back(std::move(half));
    }
}

constexpr Roles wgmmaRoles[] = {{1, 2, 128}, {1, 2, 64}, {2, 1, 256}, {2, 1, 128}, {1, 3, 64}, {3, 1, 192}, {1, 1, 64}};
/// Numbers of ranges that have, for many rows, the bits of tiles with as many parts.
constexpr int64_t wgmmaRanges[] = {2, 4, 8};

static std::vector<Tile> wgmmaTiledConfigurations(const Op &op, const Target &target, const DimBinding &dims) {
  static constexpr int64_t cols[] = {256, 224, 192, 160, 128, 96, 64, 32};
  std::vector<Tile> tiles;
  addTiles(tiles, op, target, dims, wgmmaRoles, cols, {});
  // The bits of a row of decode must not depend on the rows beside it, and so not on the parts of the depth.
  if (hasOneToken(anchor(op)->result()->type))
    return tiles;
  static constexpr Roles clusteredRoles[] = {{2, 1, 128}, {1, 1, 64}, {1, 2, 128}};
  static constexpr Shares clusters[] = {{2, 1, 1}, {1, 2, 1}, {4, 1, 1}, {1, 4, 1}, {2, 2, 1}, {1, 1, 2},
                                        {1, 1, 4}, {1, 1, 8}, {2, 1, 2}, {1, 2, 2}, {2, 1, 4}, {1, 2, 4}};
  for (Shares shares : clusters)
    addTiles(tiles, op, target, dims, clusteredRoles, ArrayRef(cols).drop_front(2), shares);
  for (int64_t ranges : wgmmaRanges)
    addTiles(tiles, op, target, dims, wgmmaRoles, cols, {.ranges = ranges});
  return tiles;
}

/// The least widths, no multiples of 32, with which one or two rounds of blocks have all columns.
static SmallVector<int64_t, 4> balancedCols(const Op &op, const Target &target, const DimBinding &dims, int64_t m,
                                            int64_t parts) {
  MatmulProblem problem = matmulProblem(op);
  auto rowTiles = static_cast<int64_t>(llvm::divideCeil(valueAt(problem.rows, dims), m));
  SmallVector<int64_t, 4> widths;
  for (int64_t rounds : {1, 2}) {
    const int64_t colTiles = rounds * static_cast<int64_t>(target.multiprocessors) / (rowTiles * parts);
    if (colTiles == 0)
      continue;
    auto least = static_cast<int64_t>(llvm::divideCeil(valueAt(problem.cols, dims), colTiles));
    for (int64_t group : {16, 8}) {
      auto n = static_cast<int64_t>(llvm::alignTo(least, group));
      if (n >= 32 && n <= 256 && n % 32 != 0 && !llvm::is_contained(widths, n))
        widths.push_back(n);
    }
  }
  return widths;
}

/// The sound tiles with more stages than usual.
static void addDeepTiles(std::vector<Tile> &tiles, const Op &op, const Target &target, const DimBinding &dims,
                         Shares shares) {
  static constexpr Roles roles[] = {{2, 1, 128}, {1, 1, 64}};
  for (Roles role : roles)
    for (int64_t n : {128, 96, 64, 32}) {
      Tile tile = tileOf(op, target, role, n, shares, target.sharedPerBlock, INT64_MAX);
      if (setting(tile, "stages") > usualStages && isSoundWgmmaTiled(op, tile))
        tiles.push_back(spread(op, target, std::move(tile), dims));
    }
}

/// Tiles as wide as few rounds of blocks need, of which the model expects too much (docs/experiments/prompts.md); parts
/// of 192 and 256 rows, which load less for each product; large tiles with ranges in clusters, of which the model
/// expects too little under the load of many prompts; and small tiles with more stages than usual.
static std::vector<Tile> wgmmaTiledTrials(const Op &op, const Target &target, const DimBinding &dims) {
  std::vector<Tile> tiles;
  if (hasOneToken(anchor(op)->result()->type))
    return tiles;
  auto addBalanced = [&](ArrayRef<Roles> roles, Shares shares) {
    for (Roles role : roles)
      addTiles(tiles, op, target, dims, role, balancedCols(op, target, dims, role.m * shares.n, shares.parts), shares);
  };
  addBalanced(wgmmaRoles, {});
  for (int64_t ranges : wgmmaRanges)
    addBalanced(wgmmaRoles, {.ranges = ranges});
  static constexpr Roles partedRoles[] = {{2, 1, 256}, {3, 1, 192}, {2, 1, 128}, {1, 1, 64}};
  static constexpr int64_t cols[] = {192, 160, 128, 96, 64};
  for (int64_t parts : {2, 4}) {
    addBalanced(partedRoles, {.parts = parts});
    addTiles(tiles, op, target, dims, ArrayRef(partedRoles).take_front(2), cols, {.parts = parts});
  }
  static constexpr Roles largeRoles[] = {{2, 1, 256}, {2, 1, 128}, {1, 2, 128}};
  static constexpr Shares copiedShares[] = {{.m = 2, .ranges = 2}, {.n = 2, .ranges = 2}};
  for (Shares shares : copiedShares)
    addTiles(tiles, op, target, dims, largeRoles, cols, shares);
  static constexpr Shares deepShares[] = {{}, {.parts = 2}, {.parts = 4}, {.ranges = 2}, {.ranges = 4}};
  for (Shares shares : deepShares)
    addDeepTiles(tiles, op, target, dims, shares);
  return tiles;
}

static AttributeMap orderOfWgmmaTiled(const Op &op, const Tile &tile) {
  WgmmaBlock block(op, tile);
  return DepthCut{.ranges = block.parts * block.ranges}.order();
}

/// Blocks of a product of a half beside an exchange of the other; 0: as always. A persistent grid takes any number.
static int64_t blocksOfHalf(const Op &op, const WgmmaBlock &block) {
  if (!canHideExchanges(op) || hasOneToken(anchor(op)->result()->type) || block.parts > 1)
    return 0;
  return std::max<int64_t>(0, block.blocks - blocksOfHiddenExchange(op)) / block.cluster() * block.cluster();
}

static Launch launchWgmmaTiled(const Op &op, const Tile &tile) {
  WgmmaBlock block(op, tile);
  return {.grid = {gridOf(op, block), Expr(1), Expr(1)},
          .threads = block.threads(),
          .dynamicShared = block.sharedBytes(),
          .cluster = block.cluster(),
          .resident = block.resident(),
          .halfBlocks = blocksOfHalf(op, block)};
}

static std::vector<OperandMap> mapsOfWgmmaTiled(const Op &op, const Tile &tile) {
  WgmmaBlock block(op, tile);
  return {mapOfLeft(op, block.m / block.clusterN), mapOfWeight(op, block.n / block.clusterM, permutedRowsOf(block.n))};
}

namespace {

/// The blocks of a launch.
struct Rounds {
  double perBlock; ///< tiles that a block has one after the other, with those of blocks that ran before in its place
  double running;  ///< blocks that run at a time
  double resident; ///< of them, on a multiprocessor
};

} // namespace

static Rounds roundsOf(const WgmmaBlock &block, const Target &target, double rows, double cols) {
  auto cluster = static_cast<double>(block.cluster());
  double tiles = std::ceil(rows / static_cast<double>(block.m * block.clusterM)) *
                 std::ceil(cols / static_cast<double>(block.n * block.clusterN));
  auto room = static_cast<double>(clustersAtOnce(block, target) * block.resident());
  double grid = block.parts > 1 ? tiles : std::min(static_cast<double>(block.blocks / block.cluster()), tiles);
  double running = std::min(room, grid);
  return {std::ceil(tiles / grid) * std::ceil(grid / running), running * cluster,
          std::ceil(running * cluster / target.multiprocessors)};
}

/// Cycles of a step of the depth, 128 bytes of each row.
static double cyclesOfStep(const WgmmaBlock &block, const Target &target, const Rounds &rounds) {
  const KernelTimes::WgmmaTiled &times = target.times.wgmmaTiled;
  auto m = static_cast<double>(block.m), n = static_cast<double>(block.n);
  double flopsPerCycle = target.tensorRate / target.multiprocessors / target.times.clock;
  double multiply = rounds.resident * 2 * m * n * stepBytes / 2 / (flopsPerCycle * times.rate); // 64 elements
  double load = rounds.resident * (m + n) * stepBytes / times.loadBytes;
  // Of what the blocks load, L2 gives each of them its share.
  double shares = m / static_cast<double>(block.clusterN) + n / static_cast<double>(block.clusterM);
  double fromL2 = rounds.running * shares * stepBytes / (times.l2Bytes * target.multiprocessors);
  // Operands of the next steps arrive while the tensor cores multiply.
  return std::max({multiply, load, fromL2}) + times.gap + (block.copiesToOthers() ? times.multicast : 0);
}

/// Seconds in which the blocks of a tile give each other their sums.
static double exchangeSeconds(const WgmmaBlock &block, const Target &target, const Rounds &rounds) {
  if (block.parts == 1)
    return 0;
  const KernelTimes::WgmmaTiled &times = target.times.wgmmaTiled;
  auto given = static_cast<double>(block.m * block.n / block.parts * (block.parts - 1) * 4);
  return times.exchange + rounds.resident * given / times.exchangeRate;
}

/// How long an element of the epilogue takes beside one in a tile whose threads have 8 neighbouring columns: in groups
/// of 16 or 8 columns a thread has 4 or 2, and reads and writes as many at a time.
static double slownessOfElement(int64_t n) { return n % 32 == 0 ? 1 : n % 16 == 0 ? 1.25 : 1.75; }

static double estimateWgmmaTiled(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims) {
  const KernelTimes::WgmmaTiled &times = target.times.wgmmaTiled;
  MatmulProblem problem = matmulProblem(op);
  WgmmaBlock block(op, tile);
  const int64_t rows = valueAt(problem.rows, dims);
  if (const int64_t ofHalf = blocksOfHalf(op, block); ofHalf > 0 && rows >= fewestRowsBesideExchange)
    block.blocks = ofHalf;
  Rounds rounds = roundsOf(block, target, static_cast<double>(rows), static_cast<double>(valueAt(problem.cols, dims)));
  auto teams = static_cast<double>(block.teams), parts = static_cast<double>(block.parts);
  double steps = std::ceil(static_cast<double>(stepsOfDepth(op)) / parts);
  // Products of the second range follow those of the first; further ones wait.
  double waits = static_cast<double>(std::max<int64_t>(0, block.ranges - 2)) * times.range;
  double products = (steps * cyclesOfStep(block, target, rounds) + waits) / target.times.clock;
  double elements = static_cast<double>(block.m * block.n) / static_cast<double>(block.consumers) / parts *
                    slownessOfElement(block.n);
  double output = times.output + elements * times.element + exchangeSeconds(block, target, rounds);
  // A team's epilogue is hidden by the products of others, but for the last one.
  double inTurn = std::ceil(rounds.perBlock / teams) * (products + output);
  double blockTime = teams == 1 ? inTurn : std::max(rounds.perBlock * products, inTurn) + output;
  double ends = times.ends + (block.cluster() > 1 ? times.cluster : 0);
  return target.launchSeconds + ends + std::max(blockTime, bytesMovedAt(op, dims) / target.memoryRate);
}

const KernelFamily wgmmaTiledFamily = {
    .name = "gemm_wgmma",
    .summary = "matrix product in the tensor cores of Hopper by wgmma, operands loaded by TMA",
    .header = "gemm/wgmma_tiled.cuh",
    .body = "wgmmaTiled",
    .form = KernelForm::TensorMatmul,
    .waitsItself = true,
    .readsAhead = true,
    .rowVectors = 2,
    .accepts = acceptsWgmmaTiled,
    .configurations = wgmmaTiledConfigurations,
    .moreToTry = wgmmaTiledTrials,
    .isSound = isSoundWgmmaTiled,
    .order = orderOfWgmmaTiled,
    .launch = launchWgmmaTiled,
    .estimate = estimateWgmmaTiled,
    .maps = mapsOfWgmmaTiled,
    .mailboxes = [](const Op &op, const Tile &) { return rowMailBytes(op); },
};

} // namespace kiln
