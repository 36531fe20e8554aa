//===- KernelFamily.h - the record of a kernel template ---------------------===//
//
// One record for each template under templates/: which ops it runs, in which configurations, how it is launched and
// how long it should take. select-kernels and choose-tiles read the records; codegen writes the kernels.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/IR.h"
#include "kernels/targets/Target.h"

#include <array>

namespace kiln {

/// How generated code wraps a template: which functors it passes. Besides the body, a template declares the size of its
/// shared memory, `kBodyShared<Config>`, which for a matrix product also depends on the listed types.
enum class KernelForm {
  Matmul,         ///< body<Config>(rows, Input, weight, Epilogue), kBodyShared<Config, Input, W>
  TensorMatmul,   ///< body<Config>(rows, a, weight, Epilogue), operands stored as they are; kBodyShared<Config, T>.
                  ///< body<Config, T> if a and weight are tensor maps, which do not tell their elements
  Batched,        ///< body<Config>(rows, cols, depth, Input, operand, Epilogue), one product per grid z; as Matmul
  Flash,          ///< body<Config>(queries, keys, q, k, v, Position, Score, Epilogue)
  TensorFlash,    ///< the same, Score a constant factor; body<Config, T> if q, k and v are tensor maps
  SplitKv,        ///< body<Config>(q, k, v, Position, Score, parts, arrivals, Epilogue); without parts and arrivals if
                  ///< the family has no workspace
  TensorScore,    ///< body<Config>(rows, a, weight, parts, arrivals, Epilogue), as TensorMatmul; the results are
                  ///< log-probabilities and the best tokens of rows of products (TokenScores.h)
  ScoreRows,      ///< body<Config>(Input, Epilogue): such results of rows in memory
  LayerNorm,      ///< body<Config>(rows, Input, Epilogue)
  RowStatistics,  ///< body<Config>(rows, Input, Epilogue)
  RowReduction,   ///< body<Config>(Input, Epilogue)
  Softmax,        ///< body<Config>(rows, cols, Input, Epilogue)
  Map,            ///< body<Config>(count, Body)
  Exchange,       ///< body<Config>(count, Exchange, Body): of what all ranks have of a tensor; Body loads this rank's
  ExchangeRows,   ///< body<Config>(rows, Exchange, Body): the sums of rows over all ranks; Body adds to them, and has
                  ///< their statistics; kBodyShared<Config, T>
  ExchangeSlices, ///< the same; Body loads each rank's from its memory, and stores to the memory of all
  ExchangeShares, ///< as Exchange; Body stores to the memory of all
  DecodeLayers,   ///< a class of phases, which the kernel calls: decode/layers.cuh; kBodyShared<Config, T>
  Library,        ///< no kernel: a step that a library runs
};

/// Configuration of a template: `tile = {tile_rows = 64}` in the IR is `kTileRows = 64` in its Config.
using Tile = AttributeMap;
/// The value of an integer setting that the tile must have.
int64_t setting(const Tile &tile, StringRef name);
/// Of templates that accept any tile, and of libraries, which take none: KernelFamily::isSound.
bool anyTile(const Op &op, const Tile &tile);
/// The most of a setting `unroll`: more would only take the compiler of the kernels time.
constexpr int64_t mostUnroll = 64;

/// Bytes of shared memory that a kernel may declare on every target; the launch must ask for more than that.
constexpr int64_t maxStaticShared = 48 * 1024;
/// Bytes of a barrier in shared memory.
constexpr int64_t barrierBytes = 8;

/// How a kernel is launched; grid extents are formulas over dims. The generated kernel asserts that its template needs
/// exactly this much shared memory.
struct Launch {
  std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)};
  int64_t threads = 0;
  int64_t staticShared = 0;  ///< bytes per block that the kernel declares
  int64_t dynamicShared = 0; ///< bytes per block that the launch asks for
  bool cooperative = false;  ///< blocks wait for each other, so all of them must be resident
  int64_t cluster = 1;       ///< blocks of a cluster, neighbours in x, of which the grid has whole ones; 1: no clusters
  int64_t resident = 0;      ///< minimum of blocks per multiprocessor, which limits registers; 0: none
  int64_t halfBlocks = 0;    ///< as PlanLaunch has it, for a template that takes any number of blocks in x; 0: none
};

/// An operand that a kernel takes as a tensor map; PlanTensorMap says more.
struct OperandMap {
  const Value *operand = nullptr;
  SmallVector<Expr, 4> extents; ///< in elements, the contiguous dimension first
  SmallVector<Expr, 4> strides; ///< in bytes, of all dimensions but the first
  SmallVector<Expr, 4> box;     ///< in elements; the first is constant
};

struct KernelFamily {
  StringRef name;    ///< as in `kernel = gemm_simt`
  StringRef summary; ///< one line
  StringRef header;  ///< path within templates/
  StringRef body;    ///< the template function; its shared memory is named after it, `kSimtRowShared` of `simtRow`
  KernelForm form;
  /// The template itself waits for the results of earlier kernels (device/grid.cuh), because it has work to do before;
  /// otherwise the generated kernel waits at its start.
  bool waitsItself = false;
  /// Asks the epilogue to load its operands well before it passes a product.
  bool readsAhead = false;
  /// Its blocks compute statistics of rows beside a product and share them by mail (templates/row_mail.cuh): vectors of
  /// a row that a lane has registers for at a time. 0: they compute none.
  int64_t rowVectors = 0;
  /// Its Config has kWeightTransposed, for weights of [cols, depth] or of [depth, cols]; other templates support only
  /// the former.
  bool takesEitherOrder = false;
  /// With one token per sequence: the number of rows that its instructions process in the time of one. Calls with at
  /// most this many rows get a variant.
  int64_t rowsAtOnce = 4;
  /// A lower rung of the ladder, or a library: used only on request.
  bool byRequestOnly = false;

  /// Whether it should run the op, plain or fused, with dims up to `upper`. Callers ask `runs`.
  bool (*accepts)(const Op &op, const Target &target, const DimBinding &upper);
  /// The configurations to choose from for dims up to `upper`; never empty for an op that it accepts.
  std::vector<Tile> (*configurations)(const Op &op, const Target &target, const DimBinding &upper);
  /// Configurations that `kiln tune` tries besides, since the model does not rank them well enough to choose among
  /// them; null: none.
  std::vector<Tile> (*moreToTry)(const Op &op, const Target &target, const DimBinding &upper) = nullptr;
  /// Whether the template, whose static assertions these are, accepts a tile that has the settings of a configuration,
  /// each of them a positive integer or a truth value. Nothing else of the record is asked about a tile that it does
  /// not accept, except by the family's own configurations.
  bool (*isSound)(const Op &op, const Tile &tile);
  /// What of a tile decides in which order the products of a row are added up: configurations of equal order, of this
  /// family or of another, give a row the same bits. Tensor cores: {ranges = 2, chains = 3}, the depth in two ranges
  /// one behind the other, and each of them in three chains, cut at whole steps of 128 bytes; the chains of a range are
  /// added in order, then the ranges; `by` and other settings tell apart what these do not. Null: nothing is known of
  /// the family's orders.
  AttributeMap (*order)(const Op &op, const Tile &tile) = nullptr;
  /// The most rows that a launch of a tile computes, as rowsOf (kernels/cost/Problem.h) counts them; null: any number.
  int64_t (*mostRows)(const Op &op, const Tile &tile) = nullptr;
  Launch (*launch)(const Op &op, const Tile &tile);
  /// Modelled seconds at given dims: from bytes, operations, waves of blocks and the target's rates.
  double (*estimate)(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims);
  /// Bytes of scratch in the arena; null: none.
  Expr (*workspace)(const Op &op, const Tile &tile) = nullptr;
  /// Number of its 32-bit arrival counters, which are zero before and after a launch.
  Expr (*counters)(const Op &op, const Tile &tile) = nullptr;
  /// The operands that it takes as tensor maps; null: it takes addresses.
  std::vector<OperandMap> (*maps)(const Op &op, const Tile &tile) = nullptr;
  /// Bytes that blocks exchange values through: zero before the first launch, and kept from one to the next. Null:
  /// none.
  int64_t (*mailboxes)(const Op &op, const Tile &tile) = nullptr;
  /// The phases whose times it can measure (templates/decode/phase_times.cuh), in their order, into the first words of
  /// its mailboxes.
  ArrayRef<StringRef> phases = {};
  /// Bytes of each rank's inbox that a kernel uses which exchanges values with other ranks. Null: it does not, and so
  /// runs no product with a sum over ranks in its region.
  int64_t (*inbox)(const Op &op, const Tile &tile) = nullptr;

  /// Whether it accepts the op. Families of products need not look for scores behind the product, nor for more
  /// products, nor for statistics of rows beside it, nor for sums over ranks behind it: only those of the form
  /// TensorScore get the first, those of the form DecodeLayers the second, those with rowVectors the third, and those
  /// with an inbox the last.
  bool runs(const Op &op, const Target &target, const DimBinding &upper) const;
};

/// Every family, in the order in which select-kernels tries them: special ones first, those by request last.
ArrayRef<const KernelFamily *> allKernelFamilies();

/// The family with this name, or null.
const KernelFamily *findKernelFamily(StringRef name);

/// The target that select-kernels wrote into the module, as portable() says if the module's kernels run on others, too.
/// Error: there is none.
Expected<const Target *> targetOf(const Module &module);
/// The target with this name, likewise, for passes in front of select-kernels. Error: an unknown name.
Expected<const Target *> targetNamed(StringRef name, const Module &module);
/// The family that an attribute `kernel` of the op names. Error: there is no such family, or it does not run the op
/// with dims up to `upper`.
Expected<const KernelFamily *> checkFamily(const Op &op, const Attribute *kernel, const Target &target,
                                           const DimBinding &upper);
/// Checks that the op's attribute `tile` exists and has the settings of its family, that the template accepts them,
/// that a block fits on the target, and that launches can have as many blocks as the bounds of the dims ask for. Error:
/// the first violation.
Error checkTile(const Op &op, const KernelFamily &family, const Attribute *tile, const Target &target,
                const DimBinding &upper);
/// The same for a dictionary, given one of the family's configurations, which take time to list.
Error checkTile(const Op &op, const KernelFamily &family, const Attribute *tile, const Target &target,
                const DimBinding &upper, const Tile &example);
/// Whether launches can have as many blocks as the bounds of the dims ask for, with one of the family's configurations.
bool hasGrid(const Op &op, const KernelFamily &family, const Tile &tile);

/// Checks the op's `kernel`, `tile` and `variants` as checkFamily and checkTile do, so that choiceOf and variantsOf can
/// read them; unless an op of the function that computes the same has the same ones: layers are alike, and to list the
/// configurations of a kernel takes time. `checked` are such ops. Error: the first violation.
Error checkChoices(const Op &op, const Target &target, std::set<std::string> &checked);

/// The family that the module wants for ops of this kind, whether or not it accepts this one; or null. The module's
/// attribute `kernels = {layernorm = naive}`, written by select-kernels, maps kinds of anchors to families.
const KernelFamily *preferredFamily(const Op &op);

/// The preferred family if it accepts the op; otherwise the first one that does and needs no request, or null.
const KernelFamily *selectFamily(const Op &op, const Target &target, const DimBinding &upper);

/// The kernel that runs an op: a family and its configuration.
struct KernelChoice {
  const KernelFamily *family = nullptr;
  Tile tile;

  bool operator==(const KernelChoice &other) const {
    return family == other.family && Attribute(tile) == Attribute(other.tile);
  }
};

/// The calls with at most `rows` rows, as rowsOf (kernels/cost/Problem.h) counts them, of sequences of at most `tokens`
/// tokens, or, of attention over a cache, with at most so many in it; 0: of any length.
struct ChoiceBound {
  int64_t rows = 0, tokens = 0;

  /// Whether it is enough for so many rows of sequences of at most so many tokens.
  bool takes(int64_t ofRows, int64_t ofTokens) const { return ofRows <= rows && (tokens == 0 || ofTokens <= tokens); }
};

/// The kernel that runs an op in these calls.
struct KernelVariant : ChoiceBound {
  KernelChoice choice;
};

/// The order of a choice's sums, as a text to compare: equal ones give a row the same bits. A choice of a family whose
/// orders are not known has one of its own.
std::string orderOfSums(const Op &op, const KernelChoice &choice);

/// Whether any number of the op's rows must run with kernels of the family's form, since a row's bits must not depend
/// on their number: attention to few tokens, and products of few tokens per sequence in tensor cores.
bool hasFixedForm(const Op &op, const KernelFamily &family);

/// The choices that select-kernels and choose-tiles wrote into the op: `kernel` and `tile` for any number of rows, and
/// `variants` for few rows, ascending: the first one with enough tokens and rows runs.
KernelChoice choiceOf(const Op &op);
std::vector<KernelVariant> variantsOf(const Op &op);
/// The one of these that runs in a call of so many rows of sequences of at most so many tokens.
KernelChoice choiceFor(const Op &op, int64_t rows, int64_t tokens);
Attribute variantsAttribute(ArrayRef<KernelVariant> variants);

/// Bytes of scratch that are enough for each of the op's kernels; nothing if none needs scratch. Never decreases when a
/// dim grows.
std::optional<Expr> workspaceBytes(const Op &op);

} // namespace kiln
