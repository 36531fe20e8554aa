//===- KernelText.h - the source of one kernel ------------------------------===//
#pragma once

#include "codegen/Functor.h"
#include "kernels/families/KernelFamily.h"
#include "plan/Plan.h"

namespace kiln {

/// A kernel's source without its name and heading, and what to pass for its parameters. Ops of different layers give
/// equal texts, so that they share a kernel.
struct KernelText {
  PlanKernel record;                   ///< without name, rows and number; lines are counted from the body's first
  std::string body;                    ///< from the #include on; the kernel's name is @NAME@
  std::vector<std::string> arguments;  ///< as PlanLaunch::arguments
  std::vector<PlanConstant> constants; ///< as PlanLaunch::constants
  Expr counters;                       ///< 32-bit counters that it uses
  int64_t mailboxes = 0;               ///< bytes that it keeps from launch to launch
  int64_t inbox = 0;                   ///< bytes of each rank's inbox
};

/// A kernel as it is launched: its text is for this family and tile.
struct WrittenKernel {
  KernelChoice choice;
  KernelText text;
};

struct SamplingParts;

/// Puts the pieces of a kernel together.
class KernelAssembler {
public:
  KernelAssembler(const Op &op, const KernelChoice &choice, const KernelNames &names);

  /// A constant of Config besides those of the tile: `kCols = 3072`.
  void constant(StringRef name, const Twine &value);
  /// Adds a functor's declaration and takes its members as parameters.
  void add(const Functor &functor);
  /// A functor for the call itself: its members become parameters, it is not declared.
  Functor &call() { return callFunctor; }
  /// The parameter for an operand that the call hands to the template: a tensor map if the family takes one, else the
  /// address.
  std::string operand(const Value &value);
  /// One parameter for several operands of the same type: an array, of maps if the family takes the first of them as a
  /// map, else of addresses. It has the name of the first one's.
  std::string array(ArrayRef<const Value *> values, bool writes = false);
  /// The family's workspace and counters, as parameters `parts` of that type, and `arrivals`.
  void addWorkspace(StringRef partType);
  /// The family's mailboxes, as the parameter `mail`.
  void addMailboxes() { hasMailboxes = true; }
  /// The same, to which the module's other ranks write, too, if there are some: parameters `mails`, `stop` and `rank`.
  void addMailboxesOfRanks() { hasMailboxes = sharesMailboxes = true; }
  /// A parameter that is no operand, and what launches pass for it.
  void parameter(const Twine &declaration, const Twine &argument) {
    ownParameters.push_back({declaration.str(), argument.str()});
  }
  /// What an exchange needs: the parameters `inboxes`, `rank` and `stop`.
  void addInboxes() { hasInboxes = true; }
  /// Of the region's ops, those that the text shows: the others do the same with other parameters.
  void computes(std::vector<const Op *> ops) { computed = std::move(ops); }

  /// The finished source; `statement` calls the template. `extents`: those that the kernel knows, `n3072_k768`, or
  /// nothing. `layoutTypes`: what the template's shared memory depends on besides Config, arguments of its constant
  /// `k…Shared`. Error: a result that none of the functors stores.
  Expected<KernelText> finish(const Twine &statement, DType dtype, const Twine &extents,
                              ArrayRef<std::string> layoutTypes = {});
  /// The same for several statements, of which some compute certain ops and the others the rest.
  Expected<KernelText> finish(ArrayRef<CodeLine> statements, DType dtype, const Twine &extents,
                              ArrayRef<std::string> layoutTypes = {});

private:
  PlanKernel describe(DType dtype, StringRef extents) const;
  const OperandMap *findMap(const Value &value) const;
  std::vector<std::string> declareParameters(KernelText &text) const;
  bool hasMailboxesOfRanks() const;
  void declareRanks(std::vector<std::string> &declared, KernelText &text) const;
  std::string declare(const Functor::Member &member, KernelText &text) const;
  std::string mapComments() const;
  std::string entry(ArrayRef<std::string> declared, ArrayRef<std::string> layoutTypes) const;
  std::string config() const;
  std::string sharedAssertion(ArrayRef<std::string> layoutTypes, const Launch &launch) const;
  std::string constantMemory(std::vector<PlanConstant> &constants) const;
  std::vector<Functor::Member> parameters() const;
  Error checkResults() const;

  const Op &op;
  const KernelNames &names;
  const KernelChoice &choice;
  std::vector<std::pair<std::string, std::string>> constants;
  std::vector<std::pair<std::string, std::string>> ownParameters; ///< that are no operands, and what launches pass
  std::vector<CodeLine> declarations;
  std::vector<OperandMap> maps;
  std::vector<std::vector<const Value *>> arrays;
  std::vector<const Op *> computed;
  Functor callFunctor;
  std::string partType;
  bool hasMailboxes = false, sharesMailboxes = false, hasInboxes = false;
};

/// `key <= query && key > query - 256`: when a causal mask, with a window of 256 here, leaves a score as it is.
std::string visibility(const Op &mask, StringRef query, StringRef key);

/// ` - 1`: what a causal mask adds to positions; empty if that is nothing.
std::string offsetText(const Op &mask);

/// The functor `Score`: what becomes of a product of query and key, by pointwise ops that follow each other.
Functor scoreFunctor(const Op &product, ArrayRef<const Op *> scales, const KernelNames &names);
/// The functor `Position`: the position of a sequence's first query, from the mask's operand.
Functor positionFunctor(const Op &mask, const KernelNames &names);
/// Where the rows of an embed op's tables for a token and its position have column `col`, as pointers.
struct EmbeddedPlaces {
  std::string token, position;
};
EmbeddedPlaces embeddedPlaces(Functor &functor, const Op &embed, StringRef token, StringRef position);
/// What an embed op adds up for `width` columns from `col` on, a number or the name of one: the rows of its tables for
/// a token and its position.
std::string embeddedSum(Functor &functor, const Op &embed, StringRef token, StringRef position, StringRef width);
/// `rank * 25128 + min(rank, 1)`: where a rank's share of `size` things begins, of which the first ranks have one more;
/// and how many they are.
std::string firstOfShare(Functor &functor, int64_t size, int64_t ranks);
std::string countOfShare(Functor &functor, int64_t size, int64_t ranks);
/// The number of rows over these dims, like `B * T`, with constants folded; the dims become members.
std::string productText(Functor &functor, ArrayRef<Dim> dims);
/// Declares the operands that an epilogue reads from memory, and their loads ahead of the arithmetic. `batchAndToken`:
/// the line that computes these two.
void addOperands(Functor &epilogue, ArrayRef<EpilogueEmitter::Ahead> ahead, const std::string &batchAndToken);
/// The line that computes `b` and `t`, and `h` of rank 4, from the row of a tensor of rank 3 or 4.
std::string leadingIndices(Functor &functor, const Type &type);
/// The coordinates of element (row, col) of a matmul's result: of rank 3 and 4 by leadingIndices, but of one token a
/// sequence by the row.
Coordinates matmulCoordinates(const Type &type);

/// `Config::kTileRows` for `tile_rows`.
std::string constantName(StringRef tileKey);

// One writer a form of kernel. Error: an op of the region that it does not know how to write, which is an error of the
// family's `accepts`, or a region of IR text that no pass makes.
Expected<KernelText> writeMatmulKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeTensorMatmulKernel(const Op &op, const KernelChoice &choice);
/// What the two forms of products in tensor cores share: the kernel's constants, operands, and the call. `kernel`: with
/// its workspace, if the family has one.
Expected<KernelText> writeTensorProduct(const Op &op, const KernelChoice &choice, KernelAssembler &kernel,
                                        const Functor &epilogue);
Expected<KernelText> writeTensorScoreKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeScoreRowsKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeBatchedKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeFlashKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeSplitKvKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeLayerNormKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeRowStatisticsKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeRowReductionKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeSoftmaxKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeExchangeKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeRowSumKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeMapKernel(const Op &op, const KernelChoice &choice);
Expected<KernelText> writeDecodeLayersKernel(const Op &op, const KernelChoice &choice);
/// The kernel of @generate, which decodes as this op does and samples in between.
Expected<KernelText> writeGenerateKernel(const Op &op, const KernelChoice &choice, const SamplingParts &sampling);

/// The kernel of an op by the writer of its family's form. Error: as theirs, at the op.
Expected<KernelText> writeKernel(const Op &op, const KernelChoice &choice);

} // namespace kiln
