//===- Leftovers.h - temporary files, and the sweep of those that nobody needs ---===//
//
// A killed process leaves its temporary files behind. Each of them is locked (flock) by the process that made it, and
// the system drops the lock when the process ends, in whatever way. So a temporary file without a lock is a leftover.
// Unlike a process id in its name, the lock also tells this of processes on other machines and in other containers, and
// no later process can be taken for the first one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// A new file or directory beside its target, named `TARGET.tmp-` and 12 hexadecimal digits. It is removed with this
/// object unless it was moved or released.
class Temporary {
public:
  enum class Kind { File, Directory };

  /// Error: `TARGET: error: cannot write: reason`.
  static Expected<Temporary> create(StringRef target, Kind kind);

  Temporary(Temporary &&other) noexcept;
  ~Temporary();

  StringRef path() const { return name; }

  /// Open for reading and writing if it is a file. Closed by this object.
  int descriptor() const { return opened; }

  /// Gives it the target's name: a file replaces one that is there, a directory an empty one. Error: as `create`.
  Error moveToTarget();

  /// Leaves it where it is, for the caller to move or remove; it stays locked as long as this object lives.
  void release();

private:
  Temporary(std::string target, std::string name, Kind kind, int opened);

  std::string target;
  std::string name; ///< empty: no longer this object's
  int opened;       ///< holds the lock
};

/// Removes temporary files and directories for `target` that processes have left which are no longer alive. What
/// cannot be removed stays, without a word.
void sweepLeftovers(StringRef target);

/// The same of all targets in a directory.
void sweepLeftoversIn(StringRef directory);

} // namespace kiln
