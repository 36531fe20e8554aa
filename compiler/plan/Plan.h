//===- Plan.h - the launches of a model, and the memory that they use -----===//
//
// The plan is the interface between compiler and runtime. It is a directory: plan.toml (this structure; docs/plan.md
// has the format), kernels/*.cu, cubin/<target>/*.cubin. This library does not use CUDA.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "plan/Entries.h"
#include "support/SourceManager.h"
#include "support/model/Expr.h"
#include "support/model/WeightRecipe.h"

#include <array>

namespace kiln {

/// Increased whenever a reader of one version would misread a plan of another.
constexpr int64_t planFormatVersion = 14;

struct PlanDim {
  std::string name;
  int64_t min = 1, max = 1;
};

/// What ptxas reports about a kernel.
struct KernelResources {
  int64_t registers = 0;
  int64_t sharedBytes = 0; ///< static
  int64_t stackBytes = 0;
  int64_t spillStores = 0, spillLoads = 0; ///< bytes
};

/// An op that a kernel computes: `%fc = add %fc_mm, %fc_b`.
struct PlanKernelOp {
  std::string value;          ///< the name of its result, also in the kernel's source: `fc`
  std::string op;             ///< the op and its operands: `add %fc_mm, %fc_b`
  std::vector<int64_t> lines; ///< its lines in the kernel's source, counted from 1, ascending
};

/// A parameter that is a tensor map instead of an address (TensorMap of templates/device/tensor_copy.cuh). It describes
/// the tensor that a launch has for this argument, as the kernel's copies see it. Swizzled by 128 bytes; elements
/// outside the extents are zero.
struct PlanTensorMap {
  int64_t argument = 0;         ///< its place among the arguments, from 0; of an array of maps, that of the first
  DType dtype = DType::F32;     ///< of the tensor
  SmallVector<Expr, 4> extents; ///< in elements, the contiguous dimension first; 2 to 5
  SmallVector<Expr, 4> strides; ///< in bytes, of all dimensions but the first
  SmallVector<Expr, 4> box;     ///< the extents of a copy, in elements; the first is constant
};

/// A parameter that is an array: it takes `size` arguments, which are all tensors, or maps of them.
struct PlanArray {
  int64_t argument = 0; ///< the place of the first one among the arguments, from 0
  int64_t size = 0;
};

/// The macro of templates/decode/phase_times.cuh.
constexpr StringRef phaseTimesMacro = "KILN_PHASE_TIMES";

struct PlanKernel {
  std::string name;                                 ///< the extern "C" function; its source is kernels/NAME.cu
  std::string family;                               ///< the template: gemm_simt
  std::map<std::string, KernelResources> resources; ///< by target

  // The fields that make up its name and tell it from other kernels.
  std::string title = {};   ///< the name of the op or fused region that it computes
  DType dtype = DType::F32; ///< of its matrix, or else of its operands
  std::string extents = {}; ///< fixed extents, `n3072_k768`, and whether it is for one token or a cache; or empty
  int64_t rows = 0;         ///< the most rows it is launched for; 0: any number
  int64_t number = 1;       ///< counts the kernels that agree in all of the above

  int64_t cluster = 1; ///< blocks of a cluster, neighbours in x, of which a launch has whole ones; 1: no clusters
  /// Phases of which it measures the times if its text is compiled with phaseTimesMacro: at the start of the step's
  /// mailboxes, a 32-bit word for each phase of each block, to which a launch adds. Empty: it has none.
  std::vector<std::string> phases = {};
  std::vector<PlanKernelOp> ops = {};   ///< in order; empty: it computes no op of the IR
  std::vector<PlanTensorMap> maps = {}; ///< by argument; empty: all its tensors are addresses
  std::vector<PlanArray> arrays = {};   ///< by argument; empty: each parameter takes one argument

  /// How many arguments the parameter takes whose first one is there.
  int64_t argumentsAt(int64_t argument) const;
  /// All but the title: `f32__n256_k256__r4`.
  std::string variant() const;
};

/// A tensor at run time: an argument or a result of a function, an intermediate value or a state.
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
  int64_t first = 0, last = 0; ///< the first and the last step at which it is live
};

/// An array in the constant memory of a kernel's module.
struct PlanConstant {
  std::string symbol; ///< the array in the kernel's source
  std::string weight; ///< the name of the weight that is copied into it

  auto operator<=>(const PlanConstant &) const = default;
};

/// A kernel and how it is launched.
struct PlanLaunch {
  std::string kernel;
  std::array<Expr, 3> grid;
  int64_t threads = 0;
  int64_t dynamicShared = 0; ///< bytes
  bool cooperative = false;  ///< its blocks wait for each other, so all of them must be resident
  std::vector<std::string> arguments = {};
  /// The most blocks in x in a half of a call, whatever the grid: the other half's blocks have the rest of the GPU. 0:
  /// as the grid says.
  int64_t halfBlocks = 0;
  /// Launches of one kernel with different constants use different instances of its module.
  std::vector<PlanConstant> constants = {};
};

/// The minimum of bytes that a step must move and of operations that it must compute.
struct StepCost {
  int64_t bytes = 0, flops = 0;

  StepCost &operator+=(const StepCost &other) {
    bytes += other.bytes;
    flops += other.flops;
    return *this;
  }
};

/// The launch that replaces the general one when the step has at most `rows` rows, of sequences of at most `tokens`
/// tokens, or with at most so many in the cache (PlanStep::tokens); 0: of any length.
struct PlanVariant {
  int64_t rows = 0, tokens = 0;
  PlanLaunch launch;

  /// Whether it is enough for so many rows of sequences of at most so many tokens.
  bool takes(int64_t ofRows, int64_t ofTokens) const { return ofRows <= rows && (tokens == 0 || ofTokens <= tokens); }
};

/// Scratch of a step, in the arena.
struct PlanWorkspace {
  Expr offset; ///< bytes into the arena
  Expr bytes;
};

/// A matrix product that a library computes instead of a kernel: out = gelu(a · weightᵀ + bias) or a · weightᵀ + bias +
/// residual, where gelu, bias and residual are optional. a is [rows, depth], weight [cols, depth], bias [cols],
/// residual and out [rows, cols]; gelu is its tanh approximation, and sums are f32. With a batch, every operand but the
/// bias is that many matrices, stored one after the other.
struct PlanMatmul {
  Expr rows, cols, depth;
  Expr batch = 1;
  bool untransposed = false; ///< weight is [depth, cols], and not transposed
  DType dtype = DType::F32;  ///< of a, weight and bias
  DType out = DType::F32;    ///< of the result and the residual
  bool bias = false, gelu = false, residual = false;

  /// `%a`, `%weight`, `%bias`, `%residual`, `%out`, `@workspace`
  size_t argumentCount() const { return 4 + (bias ? 1 : 0) + (residual ? 1 : 0); }
};

/// The name that plans and messages give to a step that is a PlanMatmul.
constexpr StringRef libraryMatmulName = "cublaslt.matmul";

/// A step runs one launch, chosen from one or several. Arguments are `%NAME` (the address of a buffer, argument, weight
/// or state, or a tensor map of it where the kernel has one), `NAME` (a dim, as an int), `@workspace` (scratch in the
/// arena), `@counters` (words that are zero between launches) and `@mailboxes` (memory of this step alone, which is
/// zero before its first launch and then stays as it is). In a plan for several ranks also `@rank` (the number of this
/// one, as an int), `@inboxN` (memory of rank N that all ranks write to and all steps share, like mailboxes otherwise),
/// `@mailboxesN` (this step's mailboxes in the memory of rank N), `@N%NAME` (the address of a buffer, or of an argument
/// that the caller has in the arena, in the memory of rank N) and `@stop` (a word of the host's memory, which is not
/// zero once a rank has failed).
struct PlanStep {
  PlanLaunch launch;                ///< for any number of rows; a library's step has only the name and arguments
  std::optional<PlanMatmul> matmul; ///< the product that a library computes
  Expr rows;                        ///< the number of rows by which a variant is chosen, if there are variants
  /// If variants are chosen by tokens, too: the dim of a sequence's tokens, or pastTokens, those that the cache holds
  /// of the longest sequence. A call need not say the latter; then variants for few are not chosen.
  std::string tokens = {};
  std::vector<PlanVariant> variants; ///< ascending, by tokens and then by rows; the first that is enough runs
  std::optional<PlanWorkspace> workspace;
  Expr counters;         ///< number of 32-bit counters it uses
  int64_t mailboxes = 0; ///< bytes
  int64_t inbox = 0;     ///< bytes of each rank's that it uses
  std::string location;  ///< file:line of the model
  Expr bytes, flops;     ///< the minimum it must move and compute; in terms of the dims and pastTokens

  /// Whether other ranks write to its mailboxes, too.
  bool sharesMailboxes() const;
  /// Whether any variant is for few tokens.
  bool hasTokenBounds() const;
  /// The tokens by which a call chooses the variant; INT64_MAX if it does not say them.
  int64_t lengthIn(const DimBinding &dims) const;
  /// Every launch; the one for any number of rows comes first.
  SmallVector<const PlanLaunch *, 4> launches() const;
  /// The launch for these dims.
  const PlanLaunch &launchFor(const DimBinding &dims) const;

  /// The cost when the cache holds `past` tokens before the call. Error: a formula has no value.
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
  Expr arena;            ///< bytes
  Expr live;             ///< bytes of the largest set of buffers that are live together
  int64_t sequences = 0; ///< of a call, at most; 0: as many as the plan's

  bool takes(int64_t rows) const { return sequences == 0 || rows <= sequences; }

  /// The buffer that a step is the first to use, its result; null for one whose result is a state or an argument.
  const PlanBuffer *resultOf(size_t step) const;
};

struct PlanWeight {
  std::string name;
  WeightRecipe recipe;
};

/// What a user of the plan must know about the model.
struct PlanModelInfo {
  std::string name;
  int64_t context = 0, vocabulary = 0, layers = 0;
  std::vector<int64_t> eosTokens;
};

/// Where the model's weights and vocabulary were when the plan was compiled. Digests are SHA-256 in hexadecimal, of
/// what tools/session/PlanOrigin.h says; empty: there were no weights, or no vocabulary.
struct PlanOrigin {
  std::string path; ///< of a MODEL: absolute, or relative to the plan's directory
  std::string weights = {}, vocabulary = {};
};

struct Plan {
  std::string compilerVersion, nvrtcVersion;
  std::string sourceHash;     ///< of the module that the plan was made from
  std::string target;         ///< the target for which tiles were chosen
  std::string strategy;       ///< the argument of `--strategy`; empty: the compiler chose the optimisations
  bool stepByStep = false;    ///< launch steps one by one; otherwise a call is one CUDA graph
  bool weightsFirst = false;  ///< run no step before all weights are loaded; otherwise a step of the first call waits
                              ///< for its own weights
  int64_t batchInvariant = 1; ///< up to so many rows of @decode, and any number of prompts of one class of lengths, a
                              ///< row's bits do not depend on the rows beside it; 1: they may
  int64_t ranks = 1;          ///< GPUs that share the model: each has its share of the weights, and runs all steps
  /// Calls of @prefill and @score for several sequences with so many tokens in all, or more, run as two halves side by
  /// side, so that exchanges of one are hidden behind the products of the other; 0: none do
  int64_t halvedRows = 0;
  bool serial = false;             ///< a kernel starts after the previous one has ended; otherwise it may start early
  std::vector<std::string> cubins; ///< targets with cubins
  std::vector<std::string> ptx;    ///< virtual architectures with PTX: compute_80
  DType dtype = DType::F32;        ///< of matrices and activations
  PlanModelInfo model;
  std::optional<PlanOrigin> origin; ///< none: compiled from a description without weights
  std::vector<PlanDim> dims;        ///< ordered by name
  PlanEntries entries;
  std::vector<PlanWeight> weights;
  std::vector<PlanTensor> states;
  std::vector<PlanKernel> kernels;
  std::vector<PlanFunction> functions;

  const PlanFunction *findFunction(StringRef name) const;
  /// The function of an entry that the plan must have.
  const PlanFunction &function(Entry entry) const { return *findFunction(entryName(entry)); }
  /// The tokens of a sequence that @verify takes; 1 for a plan without it.
  int64_t verifyTokens() const {
    return entries.verify ? *function(Entry::Verify).arguments.front().shape[1].asConstant() : 1;
  }
  /// Whether so many sequences run by @generate, and not by @decode and @sample.
  bool generates(int64_t sequences) const { return entries.generate && function(Entry::Generate).takes(sequences); }
  const PlanDim *findDim(StringRef name) const;

  /// The dims of a call: batch and tokens. The plan must have entries.
  DimBinding bind(int64_t batch, int64_t tokens) const;
  const PlanKernel *findKernel(StringRef name) const;

  /// Drops the functions and entries that are not named, the launches that no dims up to `upper` choose, and the
  /// kernels that are then unused.
  void restrictTo(ArrayRef<Entry> kept, const DimBinding &upper);
};

/// The classes of a plan's prompts by length: the bounds of tokens that its variants have. Calls evaluate prompts of
/// one class; then each has the bits that it has alone.
class PromptClasses {
public:
  explicit PromptClasses(const Plan &plan);

  /// The number of the class of a prompt, or of what its length is rounded up to.
  int64_t of(int64_t tokens) const;

private:
  std::set<int64_t> bounds;
};

/// The bounds of tokens in the cache that variants of @decode have. They depend on nothing else, and a row's bits do
/// not depend on them.
class CacheBounds {
public:
  CacheBounds() = default;
  explicit CacheBounds(const Plan &plan);

  /// The least bound for so many tokens in the cache; 0: there is none.
  int64_t of(int64_t past) const;
  /// Adds it to the dims of a call, as pastTokens, if there is one.
  void addTo(DimBinding &dims, int64_t past) const;

private:
  std::set<int64_t> bounds;
};

/// The number N of an argument `@inboxN`, or `@mailboxesN`; none if it is something else.
std::optional<int64_t> inboxOf(StringRef argument);
std::optional<int64_t> mailboxesOf(StringRef argument);

/// A buffer or an argument in the arena of a rank, `@N%NAME`.
struct RankBuffer {
  int64_t rank = 0;
  StringRef buffer;
};
/// None if the argument is something else.
std::optional<RankBuffer> rankBufferOf(StringRef argument);

/// The file of a kernel's code for a target, in the plan's directory: cubin/sm_80/NAME.cubin, ptx/compute_80/NAME.ptx.
std::string codeFile(StringRef target, StringRef kernel);

/// The text of plan.toml.
std::string writePlan(const Plan &plan);

/// Reads and checks the plan.toml of a directory: the versions of format and compiler, every key and type, names that
/// steps and functions refer to, formulas that need no other dims than the plan's, limits of launches, buffers inside
/// the arena that do not overlap while both are live and that steps use only then, source files, cubins and PTX. Error:
/// the first violation, at its place; nothing has been allocated then.
Expected<Plan> readPlan(StringRef directory);

/// Reads and checks the text of a plan.toml alone; does not look for source files, cubins and PTX.
Expected<Plan> parsePlan(const SourceFile *source);

} // namespace kiln
