//===- Plan.h - what to launch on which bytes -------------------------------===//
//
// The one thing that compiler and runtime share. A plan is a directory: plan.toml (this structure; docs/plan.md has the
// format), kernels/*.cu, cubin/<target>/*.cubin. There is no CUDA in this library.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "plan/Entries.h"
#include "support/Expr.h"
#include "support/SourceManager.h"
#include "support/WeightRecipe.h"

#include <array>

namespace kiln {

/// Changes whenever a plan of one version means something else to a reader of another.
constexpr int64_t planFormatVersion = 5;

struct PlanDim {
  std::string name;
  int64_t min = 1, max = 1;
};

/// What ptxas reports of a kernel.
struct KernelResources {
  int64_t registers = 0;
  int64_t sharedBytes = 0; ///< static
  int64_t stackBytes = 0;
  int64_t spillStores = 0, spillLoads = 0; ///< bytes
};

/// An op that a kernel computes: `%fc = add %fc_mm, %fc_b`.
struct PlanKernelOp {
  std::string value;          ///< the name of its result, in the kernel's source too: `fc`
  std::string op;             ///< what gives it: `add %fc_mm, %fc_b`
  std::vector<int64_t> lines; ///< of the kernel's source that are about it, from 1, in rising order
};

struct PlanKernel {
  std::string name;                                 ///< the extern "C" function; its source is kernels/NAME.cu
  std::string family;                               ///< the template: gemm_simt
  std::map<std::string, KernelResources> resources; ///< by target

  // What tells it from others, of which its name is made.
  std::string title = {};   ///< what it computes: the name of an op, or of a fused region
  DType dtype = DType::F32; ///< of its matrix, or of what it works on
  std::string extents = {}; ///< those that it knows, `n3072_k768`, and that it is for one token or a cache; or empty
  int64_t rows = 0;         ///< the most that it is launched for; 0: any number
  int64_t number = 1;       ///< of those that have all this in common

  std::vector<PlanKernelOp> ops = {}; ///< in order; none: it is of no op of the IR

  /// All but the title: `f32__n256_k256__r4`.
  std::string variant() const;
};

/// A tensor at run time: of a function's arguments and results, of an intermediate value, of a state.
struct PlanTensor {
  std::string name;
  DType dtype = DType::F32;
  SmallVector<Expr, 4> shape;

  Expr bytes() const;
};

/// An intermediate value in the arena.
struct PlanBuffer {
  PlanTensor tensor;
  Expr offset;                 ///< bytes into the arena
  int64_t first = 0, last = 0; ///< steps between which it is live
};

/// What lies in the constant memory of a kernel's module.
struct PlanConstant {
  std::string symbol; ///< the array in the kernel's source
  std::string weight; ///< name of the weight that is copied there

  auto operator<=>(const PlanConstant &) const = default;
};

/// A kernel and how it is launched.
struct PlanLaunch {
  std::string kernel;
  std::array<Expr, 3> grid;
  int64_t threads = 0;
  int64_t dynamicShared = 0; ///< bytes
  bool cooperative = false;  ///< its blocks wait for each other, so that all of them must be resident
  std::vector<std::string> arguments = {};
  /// Launches of one kernel with other constants are of other instances of its module.
  std::vector<PlanConstant> constants = {};
};

/// The least that a step must move and compute.
struct StepCost {
  int64_t bytes = 0, flops = 0;

  StepCost &operator+=(const StepCost &other) {
    bytes += other.bytes;
    flops += other.flops;
    return *this;
  }
};

/// What is launched instead while the step has at most `rows`.
struct PlanVariant {
  int64_t rows = 0;
  PlanLaunch launch;
};

/// Scratch of a step, in the arena.
struct PlanWorkspace {
  Expr offset; ///< bytes into the arena
  Expr bytes;
};

/// A product that a library runs, in place of a kernel: out = gelu(a · weightᵀ + bias) or a · weightᵀ + bias +
/// residual, as far as its parts are there. a is [rows, depth], weight [cols, depth], bias [cols], the others [rows,
/// cols]; gelu is that by tanh, and sums are f32. With a batch, there are so many of each but the bias, one behind the
/// other.
struct PlanMatmul {
  Expr rows, cols, depth;
  Expr batch = 1;
  bool untransposed = false; ///< weight is [depth, cols], and multiplied as it is
  DType dtype = DType::F32;  ///< of everything but
  DType out = DType::F32;    ///< the result, and a residual
  bool bias = false, gelu = false, residual = false;

  /// `%a`, `%weight`, `%bias`, `%residual`, `%out`, `@workspace`
  size_t argumentCount() const { return 4 + (bias ? 1 : 0) + (residual ? 1 : 0); }
};

/// How plans and messages call a step that is a PlanMatmul.
constexpr StringRef libraryMatmulName = "cublaslt.matmul";

/// One launch, or one of several. Arguments are `%NAME` (a buffer, argument, weight or state: its address), `NAME` (a
/// dim: an int),
/// `@workspace` (scratch in the arena) and `@counters` (words that are zero between launches).
struct PlanStep {
  PlanLaunch launch;                 ///< for any number of rows; of a library's step, its name and arguments
  std::optional<PlanMatmul> matmul;  ///< what a library runs
  Expr rows;                         ///< by which a variant is chosen, if there are any
  std::vector<PlanVariant> variants; ///< for few rows, in rising order
  std::optional<PlanWorkspace> workspace;
  Expr counters;        ///< how many 32-bit counters it uses
  std::string location; ///< file:line of the model
  Expr bytes, flops;    ///< that it must move and do; over the dims and pastTokens

  /// Every launch, that for any number of rows first.
  SmallVector<const PlanLaunch *, 4> launches() const;
  /// The launch for these dims.
  const PlanLaunch &launchFor(const DimBinding &dims) const;

  /// With so many tokens in the cache before the call. Error: a formula has no value.
  Expected<StepCost> cost(const DimBinding &dims, int64_t past) const;

  /// Drops the launches that no dims up to `upper` choose.
  void restrictTo(const DimBinding &upper);
};

struct PlanFunction {
  std::string name;
  std::vector<PlanTensor> arguments;
  std::vector<std::string> results; ///< names of buffers, states or arguments
  std::vector<PlanBuffer> buffers;
  std::vector<PlanStep> steps;
  Expr arena; ///< bytes
  Expr live;  ///< bytes of the largest set of buffers that are live together
};

struct PlanWeight {
  std::string name;
  WeightRecipe recipe;
};

/// What a user of the plan must know of the model.
struct PlanModelInfo {
  std::string name;
  int64_t context = 0, vocabulary = 0, layers = 0;
  std::vector<int64_t> eosTokens;
};

struct Plan {
  std::string compilerVersion, nvrtcVersion;
  std::string sourceHash;          ///< of the module that the plan was made from
  std::string target;              ///< that tiles were chosen for
  std::string strategy;            ///< what chose optimisations, as `--strategy` took it; empty: the compiler alone
  bool stepByStep = false;         ///< steps are launched one by one; else a call is one graph
  bool weightsFirst = false;       ///< no step before all weights are there; else the first call waits for its own
  bool serial = false;             ///< a kernel starts when the one before it has ended; else it may start early
  std::vector<std::string> cubins; ///< targets with cubins
  DType dtype = DType::F32;        ///< of matrices and activations
  PlanModelInfo model;
  std::vector<PlanDim> dims; ///< ordered by name
  PlanEntries entries;
  std::vector<PlanWeight> weights;
  std::vector<PlanTensor> states;
  std::vector<PlanKernel> kernels;
  std::vector<PlanFunction> functions;

  const PlanFunction *findFunction(StringRef name) const;
  /// The function of an entry, which the plan must have.
  const PlanFunction &function(Entry entry) const { return *findFunction(entryName(entry)); }
  const PlanDim *findDim(StringRef name) const;

  /// The dims of a call: those of batch and tokens, which a plan with entries has.
  DimBinding bind(int64_t batch, int64_t tokens) const;
  const PlanKernel *findKernel(StringRef name) const;

  /// Drops the functions, and entries, but those named, the launches that no dims up to `upper` choose, and the kernels
  /// that nobody launches then.
  void restrictTo(ArrayRef<Entry> kept, const DimBinding &upper);
};

/// The text of plan.toml.
std::string writePlan(const Plan &plan);

/// Reads and checks the plan.toml of a directory: the versions of format and compiler, every key and type, names that
/// steps and functions refer to, formulas that need no other dims than the plan's, limits of launches, buffers inside
/// the arena that do not overlap while both are live and that steps use only then, source files and cubins. Error: the
/// first violation, at its place; nothing has been allocated then.
Expected<Plan> readPlan(StringRef directory);

/// The same of a plan.toml's text alone; source files and cubins are not looked for.
Expected<Plan> parsePlan(const SourceFile *source);

} // namespace kiln
