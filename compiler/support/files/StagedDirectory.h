//===- StagedDirectory.h - writing several files at once ----------------------===//
#pragma once

#include "support/files/Leftovers.h"

namespace kiln {

/// Writes a directory completely or not at all: files are staged in a temporary directory beside the target, and
/// `commit` replaces the target by it. At every moment the target is either the old directory or the new one, also for
/// processes that read it meanwhile, and if this process is killed. The destructor removes an uncommitted stage; the
/// next stage for the same target removes one that a killed process has left. Signals that ask the program to end are
/// delayed until then.
class StagedDirectory {
public:
  /// Starts staging for `target`, which `commit` will replace as a whole. `owned` lists the files that may be lost by
  /// that: patterns of relative paths such as `cubin/*/*.cubin`, where * stands for part of one component. The patterns
  /// must outlive the stage. Error: the parent cannot be created or written; the target exists and is not a directory,
  /// or contains a file that matches none of the patterns.
  static Expected<StagedDirectory> create(StringRef target, ArrayRef<StringRef> owned);

  StagedDirectory(StagedDirectory &&other) noexcept;
  ~StagedDirectory();

  /// The directory that holds the files until `commit`.
  StringRef path() const { return stage.path(); }

  /// Writes `relativePath` in the stage, and makes its folders.
  Error write(StringRef relativePath, StringRef contents);

  /// Replaces the target directory by the stage. Error: as `create`, if the target has changed since.
  Error commit();

private:
  StagedDirectory(std::string target, Temporary stage, ArrayRef<StringRef> owned);

  Error replace();
  Error replaceByRenaming();

  std::unique_ptr<class InterruptDelay> delay; ///< declared first, so that it outlives the removal of the stage
  std::string target;
  Temporary stage;
  SmallVector<StringRef, 4> owned;
};

/// Repairs the target before it is read. On a file system that cannot exchange two directories, they are renamed one
/// after the other; if a process was killed between the two, `target` is missing, and the old directory is put back.
void restoreReplaced(StringRef target);

/// Writes files, by their relative names, into a directory, which is made if needed: all of them, or none if writing
/// fails. Existing files of these names are replaced; all others stay. Error: `PATH: error: cannot write: reason`.
Error writeFiles(StringRef directory, const std::map<std::string, std::string> &files);

} // namespace kiln
