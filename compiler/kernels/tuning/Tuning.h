//===- Tuning.h - the database of the fastest configurations --------------===//
//
// A tuning database records, for each problem (an op with its operands' types, a number of rows), the kernel and
// configuration that were the fastest on a GPU. `kiln tune` writes databases; choose-tiles prefers their entries to its
// model. graphs/targets/*.tuning.toml come with the program.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/families/KernelFamily.h"
#include "support/SourceManager.h"

namespace kiln {

/// `matmul_bias(bf16[B,T,768], bf16[2304,768], f32[2304]) -> bf16[B,T,2304]`: everything that a kernel's time depends
/// on except the dims. It is the same for all layers of a model.
std::string problemName(const Op &op);

/// The fastest measured kernel for a problem.
struct TunedChoice {
  std::string problem;
  int64_t rows = 0; ///< as rowsOf (kernels/cost/Problem.h) counts them
  KernelChoice choice;
  double seconds = 0;      ///< its time, of one launch
  double modelSeconds = 0; ///< with the first choice, the model's or that of `--tuning`; 0: unknown
  /// As KernelVariant::tokens: of prompts, for those of the class with this bound; of attention over a cache, for up to
  /// so many tokens in it; 0: for any number.
  int64_t tokens = 0;
  /// Not empty: the call within which it was tried. Times are those of the call, with all choices for it.
  std::string call = {};
};

class TuningDatabase {
public:
  std::string target; ///< that kernels were compiled for
  std::string device; ///< that they ran on

  /// Error: not such a file, at its place: a syntax error, a missing or unknown key, an unknown target or kernel, a
  /// problem twice.
  static Expected<TuningDatabase> parse(const SourceFile *file);

  /// TOML, ordered by problem, rows and tokens.
  std::string str() const;

  /// The entry of the problem; if there is none, that of the same problem with the other type of 16 bits, f16 or bf16:
  /// both have the same bytes and the same rates. Null: neither.
  const TunedChoice *find(StringRef problem, int64_t rows, int64_t tokens = 0) const;
  /// The bounds of tokens that entries of the problem have, in either type of 16 bits, ascending.
  std::vector<int64_t> tokenBounds(StringRef problem) const;
  /// Replaces the entry with the same problem, rows and tokens.
  void set(TunedChoice choice);
  size_t size() const { return choices.size(); }
  /// All entries, ordered by problem, rows and tokens.
  std::vector<TunedChoice> entries() const;

private:
  const TunedChoice *findExactly(StringRef problem, int64_t rows, int64_t tokens) const;

  std::map<std::tuple<std::string, int64_t, int64_t>, TunedChoice> choices; ///< by problem, rows and tokens
};

/// The database that comes with the program; null: there is none for this target.
const TuningDatabase *shippedTuning(StringRef target);

/// The database of a name: `none`, an empty one; `shipped`, that of the program, or an empty one; or a file's. Error:
/// an error of the file's reader, or a database of another target.
Expected<TuningDatabase> openTuning(StringRef name, StringRef target, SourceManager &sources);

} // namespace kiln
