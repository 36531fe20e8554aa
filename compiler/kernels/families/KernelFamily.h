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

/// How generated code wraps a template: which functors it is given. Beside the body the template has its shared memory,
/// `kBodyShared<Config>`; of a matrix product also of these types.
enum class KernelForm {
  Matmul,       ///< body<Config>(rows, Input, weight, Epilogue), kBodyShared<Config, Input, W>
  TensorMatmul, ///< body<Config>(rows, a, weight, Epilogue), operands as they lie in memory; kBodyShared<Config, T>
  Batched,      ///< body<Config>(rows, cols, depth, Input, operand, Epilogue), one product a grid z; as Matmul
  Flash,        ///< body<Config>(queries, keys, q, k, v, Position, Score, Epilogue)
  TensorFlash,  ///< the same, Score a constant factor
  SplitKv,      ///< body<Config>(q, k, v, Position, Score, parts, arrivals, Epilogue)
  LayerNorm,    ///< body<Config>(rows, Input, Epilogue)
  RowReduction, ///< body<Config>(Input, Epilogue)
  Softmax,      ///< body<Config>(rows, cols, Input, Epilogue)
  Map,          ///< body<Config>(count, Body)
  Library,      ///< no kernel: a step that a library runs
};

/// Configuration of a template: `tile = {tile_rows = 64}` in the IR is `kTileRows = 64` in its Config.
using Tile = AttributeMap;
/// A setting that the tile has, a whole number.
int64_t setting(const Tile &tile, StringRef name);

/// Bytes of shared memory that a kernel may declare on every target; beyond, the launch must ask for it.
constexpr int64_t maxStaticShared = 48 * 1024;

/// How a kernel is launched; grid extents are formulas over dims. The generated kernel asserts that its template lays
/// out as much shared memory.
struct Launch {
  std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)};
  int64_t threads = 0;
  int64_t staticShared = 0;  ///< bytes of a block that the kernel declares
  int64_t dynamicShared = 0; ///< bytes of a block that the launch asks for
  bool cooperative = false;  ///< blocks wait for each other, so that all of them must be resident
  int64_t resident = 0;      ///< blocks a multiprocessor that the compiler is to leave registers for; 0: it may choose
};

struct KernelFamily {
  StringRef name;    ///< as in `kernel = gemm_simt`
  StringRef summary; ///< one line
  StringRef header;  ///< below templates/
  StringRef body;    ///< the template function; its shared memory is named after it, `kSimtRowShared` of `simtRow`
  KernelForm form;
  /// The template itself says where it needs what other kernels wrote (device/grid.cuh), because it has work to do
  /// before; else the generated kernel waits at its start.
  bool waitsItself = false;
  /// Asks the epilogue for what it reads of memory well before it hands over a product.
  bool readsAhead = false;
  /// Its Config has kWeightTransposed, for weights of [cols, depth] or of [depth, cols]; others know the first alone.
  bool takesEitherOrder = false;
  /// With one token a sequence: as many rows as its instructions take for the time of one. So few get a variant.
  int64_t rowsAtOnce = 4;
  /// A rung of the ladder below others, or a library: nothing is run by it that was not asked for.
  bool byRequestOnly = false;

  /// Whether it should run the op, plain or fused, with dims up to `upper`.
  bool (*accepts)(const Op &op, const Target &target, const DimBinding &upper);
  /// The configurations to choose from for dims up to `upper`; never empty for an op that it accepts.
  std::vector<Tile> (*configurations)(const Op &op, const Target &target, const DimBinding &upper);
  /// Whether the template takes a tile that is none of these, but has their settings; null: it takes any.
  bool (*isSound)(const Op &op, const Tile &tile) = nullptr;
  Launch (*launch)(const Op &op, const Tile &tile);
  /// Modelled seconds at given dims: bytes, operations and waves of blocks against the target's rates.
  double (*estimate)(const Op &op, const Tile &tile, const Target &target, const DimBinding &dims);
  /// Bytes of scratch in the arena; null: none.
  Expr (*workspace)(const Op &op, const Tile &tile) = nullptr;
  /// 32-bit counters of arrivals that go with it, zero before and after a launch.
  Expr (*counters)(const Op &op, const Tile &tile) = nullptr;
};

/// Every family, in the order in which select-kernels tries them: special ones first, those by request only last.
ArrayRef<const KernelFamily *> allKernelFamilies();

/// The family of that name, or null.
const KernelFamily *findKernelFamily(StringRef name);

/// The target that select-kernels wrote into the module. Error: there is none.
Expected<const Target *> targetOf(const Module &module);
/// The family that an attribute `kernel` of the op names. Error: there is none, or one that does not run the op with
/// dims up to `upper`.
Expected<const KernelFamily *> checkFamily(const Op &op, const Attribute *kernel, const Target &target,
                                           const DimBinding &upper);
/// Whether an attribute `tile` of the op has the settings of its family, which its template takes, and a block of them
/// fits on the target. Error: it has not, or there is none, or the template does not, or its block does not fit.
Error checkTile(const Op &op, const KernelFamily &family, const Attribute *tile, const Target &target,
                const DimBinding &upper);

/// The family that the module wants for ops of this kind, whether or not it accepts this one; or null. Its attribute
/// `kernels = {layernorm = naive}`, which select-kernels writes, has a family for kinds of anchors.
const KernelFamily *preferredFamily(const Op &op);

/// The preferred family if it accepts the op, else the first that does and needs no request; or null.
const KernelFamily *selectFamily(const Op &op, const Target &target, const DimBinding &upper);

/// What runs an op: a family in a configuration.
struct KernelChoice {
  const KernelFamily *family = nullptr;
  Tile tile;

  bool operator==(const KernelChoice &other) const {
    return family == other.family && Attribute(tile) == Attribute(other.tile);
  }
};

/// What runs an op while it has at most `rows`: as rowsOf (kernels/cost/Problem.h) counts them.
struct KernelVariant {
  int64_t rows = 0;
  KernelChoice choice;
};

/// What select-kernels and choose-tiles wrote into the op: `kernel` and `tile`, for any number of rows, and `variants`,
/// for few, in rising order.
KernelChoice choiceOf(const Op &op);
std::vector<KernelVariant> variantsOf(const Op &op);
Attribute variantsAttribute(ArrayRef<KernelVariant> variants);

/// Bytes of scratch that any of the kernels of an op takes; nothing if none does. Not smaller with more of any dim.
std::optional<Expr> workspaceBytes(const Op &op);

} // namespace kiln
