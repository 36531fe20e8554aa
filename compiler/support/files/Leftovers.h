//===- Leftovers.h - temporary files, and removing those of killed processes ---===//
//
// A killed process leaves its temporary files behind. The process that makes one locks it (flock), and the system drops
// the lock when the process ends in any way. So a temporary file without a lock is a leftover. A process id in the name
// could not replace the lock: it says nothing about processes on other machines or in other containers, and may be
// reused.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A new file or directory beside its target, named `TARGET.tmp-` and 12 hexadecimal digits. It is removed with this
/// object unless it has been moved or released.
class Temporary {
public:
  enum class Kind { File, Directory };

  /// Error: `TARGET: error: cannot write: reason`.
  static Expected<Temporary> create(StringRef target, Kind kind);

  Temporary(Temporary &&other) noexcept;
  ~Temporary();

  StringRef path() const { return name; }

  /// The file, open for reading and writing, or the directory. Closed by this object.
  int descriptor() const { return opened; }

  /// Renames it to the target's name: a file replaces an existing one, a directory an empty one. Error: as `create`.
  Error moveToTarget();

  /// Leaves it in place for the caller to move or remove. It stays locked as long as this object lives.
  void release();

private:
  Temporary(std::string target, std::string name, Kind kind, int opened);

  std::string target;
  std::string name; ///< empty: no longer owned by this object
  int opened;       ///< holds the lock
};

/// Removes temporary files and directories for `target` that were left by processes which have ended. Failures are
/// ignored.
void sweepLeftovers(StringRef target);

/// Removes such leftovers for all targets in a directory.
void sweepLeftoversIn(StringRef directory);

} // namespace kiln
