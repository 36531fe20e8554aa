//===- StagedDirectory.h - writing several files at once ----------------------===//
#pragma once

#include "support/Leftovers.h"

namespace kiln {

/// Writes a directory completely or not at all: files are staged in a temporary directory beside the target, and
/// `commit` puts it in the target's place. At every moment the target is the old directory or the new one, also for
/// somebody who reads it meanwhile, and if the process is killed. An uncommitted stage is removed by the destructor,
/// one that a killed process has left by the next stage for the same target. Signals that ask the program to end wait
/// for that too.
class StagedDirectory {
public:
  /// Starts staging for `target`, which `commit` will replace as a whole. `owned` says what may be lost by that:
  /// patterns of relative paths, `cubin/*/*.cubin`, where * stands for part of one component. They must outlive the
  /// stage. Error: the parent cannot be created or written; the target exists and is not a directory, or holds a file
  /// that fits none of the patterns.
  static Expected<StagedDirectory> create(StringRef target, ArrayRef<StringRef> owned);

  StagedDirectory(StagedDirectory &&other) noexcept;
  ~StagedDirectory();

  /// Where the files are until `commit`.
  StringRef path() const { return stage.path(); }

  /// Writes `relativePath` (its folders are made) in the stage.
  Error write(StringRef relativePath, StringRef contents);

  /// Replaces the target directory by the stage. Error: as `create`, should the target have changed since.
  Error commit();

private:
  StagedDirectory(std::string target, Temporary stage, ArrayRef<StringRef> owned);

  Error replace();
  Error replaceByRenaming();

  std::unique_ptr<class InterruptDelay> delay; ///< first, so that it outlives the removal of the stage
  std::string target;
  Temporary stage;
  SmallVector<StringRef, 4> owned;
};

/// Where a file system cannot exchange two directories, one is renamed after the other. If there is no `target` since
/// a process was killed between the two, puts back what was there before. For those who are about to read the target.
void restoreReplaced(StringRef target);

/// Puts files, by their relative names, into a directory, made if need be: all of them, or on an error of writing none.
/// Files of these names are replaced, everything else in the directory stays. Error: `PATH: error: cannot write:
/// reason`.
Error writeFiles(StringRef directory, const std::map<std::string, std::string> &files);

} // namespace kiln
