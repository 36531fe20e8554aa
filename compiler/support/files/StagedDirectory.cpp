#include "support/files/StagedDirectory.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <mutex>
#include <sys/file.h>
#include <unistd.h>

namespace kiln {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

static Error cannotWrite(StringRef file, std::error_code reason) {
  return makeFileError(file, "cannot write: " + reason.message());
}

/// While an object lives, SIGINT, SIGTERM and SIGHUP are delayed. The first one whose life ends behind a signal lets it
/// come.
class InterruptDelay {
public:
  InterruptDelay() {
    std::lock_guard<std::mutex> guard(mutex);
    if (objects++ > 0)
      return;
    arrived = 0;
    llvm::sys::SetInterruptFunction(nullptr); // LLVM sets its handlers now, not later in place of these
    for (auto [signal, action] : llvm::zip_equal(signals, actions)) {
      sigaction(signal, nullptr, &action);
      struct sigaction noting = {};
      noting.sa_handler = [](int number) { arrived = number; };
      noting.sa_flags = SA_RESTART;
      if (action.sa_handler != SIG_IGN)
        sigaction(signal, &noting, nullptr);
    }
  }
  ~InterruptDelay() {
    std::unique_lock<std::mutex> guard(mutex);
    const int signal = arrived;
    arrived = 0;
    if (--objects > 0 && signal == 0)
      return;
    for (auto [number, action] : llvm::zip_equal(signals, actions))
      sigaction(number, &action, nullptr);
    guard.unlock();
    if (signal != 0)
      std::raise(signal);
  }

private:
  // Static, since signals belong to the process.
  static constexpr std::array<int, 3> signals = {SIGINT, SIGTERM, SIGHUP};
  static inline std::mutex mutex;
  static inline int objects = 0;
  static inline std::array<struct sigaction, signals.size()> actions; ///< before the first object
  static inline volatile std::sig_atomic_t arrived = 0;               ///< the latest signal
};

//===----------------------------------------------------------------------===//
// Checks of the directory that will be replaced
//===----------------------------------------------------------------------===//

/// Whether a relative path matches the pattern, component by component.
static bool fits(StringRef pattern, StringRef file) {
  SmallVector<StringRef, 4> wanted, parts;
  pattern.split(wanted, '/');
  file.split(parts, '/');
  return wanted.size() == parts.size() && llvm::all_of_zip(wanted, parts, [](StringRef part, StringRef name) {
           auto [before, after] = part.split('*');
           return part.contains('*') ? name.starts_with(before) && name.drop_front(before.size()).ends_with(after)
                                     : name == part;
         });
}

/// Error: a file below the directory matches none of the patterns.
static Error expectOwned(StringRef directory, ArrayRef<StringRef> owned) {
  std::error_code failure;
  for (fs::recursive_directory_iterator it(directory, failure, /*follow_symlinks=*/false), end; it != end && !failure;
       it.increment(failure)) {
    StringRef file = StringRef(it->path()).drop_front(directory.size()).ltrim('/');
    if (it->type() != fs::file_type::directory_file &&
        llvm::none_of(owned, [&](StringRef pattern) { return fits(pattern, file); }))
      return makeFileError(directory,
                           "cannot write: expected a new or empty directory or an earlier result, got one that "
                           "holds " +
                               file);
  }
  if (failure)
    return makeFileError(directory, "cannot read: " + failure.message());
  return Error::success();
}

//===----------------------------------------------------------------------===//
// StagedDirectory
//===----------------------------------------------------------------------===//

/// Writes a file below `directory`, and makes its folders.
static Error writeBelow(StringRef directory, StringRef relativePath, StringRef contents) {
  SmallString<128> file(directory);
  path::append(file, relativePath);
  if (std::error_code failure = fs::create_directories(path::parent_path(file), /*IgnoreExisting=*/true, fs::all_all))
    return cannotWrite(file, failure);
  return writeInPlace(file, contents);
}

Expected<StagedDirectory> StagedDirectory::create(StringRef target, ArrayRef<StringRef> owned) {
  if (!target.empty() && target.rtrim('/').empty())
    return makeFileError(target, "cannot write: the root directory cannot be replaced");
  target = target.rtrim('/');
  restoreReplaced(target);
  SmallString<128> real(target);
  if (fs::exists(target)) {
    if (!fs::is_directory(target))
      return makeFileError(target, "cannot write: expected a directory, got a file");
    if (Error error = expectOwned(target, owned))
      return error;
    // A symbolic link is kept; its target is replaced.
    if (std::error_code failure = fs::real_path(target, real))
      return cannotWrite(target, failure);
  }
  StringRef parent = path::parent_path(real);
  if (!parent.empty())
    if (std::error_code failure = fs::create_directories(parent))
      return cannotWrite(parent, failure);
  sweepLeftovers(real);
  Expected<Temporary> stage = Temporary::create(real, Temporary::Kind::Directory);
  if (!stage)
    return stage.takeError();
  return StagedDirectory(real.str().str(), std::move(*stage), owned);
}

StagedDirectory::StagedDirectory(std::string target, Temporary stage, ArrayRef<StringRef> owned)
    : delay(std::make_unique<InterruptDelay>()), target(std::move(target)), stage(std::move(stage)), owned(owned) {}

StagedDirectory::StagedDirectory(StagedDirectory &&other) noexcept = default;
StagedDirectory::~StagedDirectory() = default;

Error StagedDirectory::write(StringRef relativePath, StringRef contents) {
  Error error = writeBelow(stage.path(), relativePath, contents);
  if (!error)
    return Error::success();
  // The user does not know the stage.
  Diagnostic first = takeDiagnostics(std::move(error)).front();
  StringRef file = first.file;
  return makeFileError(file.consume_front(stage.path()) ? target + file.str() : file.str(), first.message);
}

Error StagedDirectory::commit() {
  if (!fs::exists(target)) {
    Error error = stage.moveToTarget();
    if (!error || !fs::exists(target))
      return error;
    llvm::consumeError(std::move(error)); // another process has removed it first
  }
  if (Error error = expectOwned(target, owned))
    return error;
  return replace();
}

/// A directory with files cannot be replaced by renaming, so the two are exchanged. The stage then holds the old files,
/// and is removed like one that was not committed.
Error StagedDirectory::replace() {
  if (renameat2(AT_FDCWD, stage.path().str().c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
    return Error::success();
  if (errno == ENOSYS || errno == EINVAL || errno == EOPNOTSUPP)
    return replaceByRenaming();
  return cannotWrite(target, {errno, std::generic_category()});
}

//===----------------------------------------------------------------------===//
// File systems that cannot exchange
//===----------------------------------------------------------------------===//

/// A directory that is locked until the end of the scope. The lock is not held if another process has it.
namespace {
class LockedDirectory {
public:
  explicit LockedDirectory(const std::string &path)
      : opened(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
    isHeld = opened >= 0 && flock(opened, LOCK_EX | LOCK_NB) == 0;
  }
  LockedDirectory(const LockedDirectory &) = delete;
  ~LockedDirectory() {
    if (opened >= 0)
      close(opened);
  }
  explicit operator bool() const { return isHeld; }

private:
  int opened;
  bool isHeld;
};
} // namespace

static constexpr StringRef replacedMark = ".old-";

/// The directories that were set aside for `target`. The process that set one aside holds its lock.
static std::vector<std::string> findReplaced(StringRef target) {
  StringRef parent = path::parent_path(target), name = path::filename(target);
  std::vector<std::string> found;
  std::error_code failure;
  for (fs::directory_iterator it(parent.empty() ? "." : parent, failure, /*follow_symlinks=*/false), end;
       it != end && !failure; it.increment(failure)) {
    StringRef file = path::filename(it->path());
    if (file.consume_front(name) && file.consume_front(replacedMark) && file.size() == 12 &&
        llvm::all_of(file, llvm::isHexDigit))
      found.push_back(it->path());
  }
  llvm::sort(found);
  return found;
}

/// Sets the old directory aside first; if the second renaming fails, puts it back.
Error StagedDirectory::replaceByRenaming() {
  LockedDirectory lock(target); // the lock stays with the directory when it is renamed
  SmallString<128> old;
  fs::createUniquePath(target + replacedMark + "%%%%%%%%%%%%", old, /*MakeAbsolute=*/false);
  if (std::error_code failure = fs::rename(target, old))
    return cannotWrite(target, failure);
  if (Error error = stage.moveToTarget()) {
    fs::rename(old, target);
    return error;
  }
  fs::remove_directories(old);
  return Error::success();
}

void restoreReplaced(StringRef target) {
  target = target.rtrim('/');
  bool isThere = fs::exists(target);
  for (const std::string &old : findReplaced(target)) {
    LockedDirectory lock(old);
    if (!lock)
      continue;
    if (isThere)
      fs::remove_directories(old);
    else
      isThere = !fs::rename(old, target);
  }
}

//===----------------------------------------------------------------------===//
// Files beside others
//===----------------------------------------------------------------------===//

Error writeFiles(StringRef directory, const std::map<std::string, std::string> &files) {
  if (!fs::exists(directory)) {
    Expected<StagedDirectory> whole = StagedDirectory::create(directory, {});
    if (!whole)
      return whole.takeError();
    for (const auto &[name, text] : files)
      if (Error error = whole->write(name, text))
        return error;
    return whole->commit();
  }
  if (!fs::is_directory(directory))
    return makeFileError(directory, "cannot write: expected a directory, got a file");
  // Staged inside the directory, so on the same file system: afterwards only a move can fail.
  InterruptDelay delay;
  std::string inside = (directory + "/.files").str();
  sweepLeftovers(inside);
  Expected<Temporary> stage = Temporary::create(inside, Temporary::Kind::Directory);
  if (!stage)
    return makeFileError(directory, takeDiagnostics(stage.takeError()).front().message);
  for (const auto &[name, text] : files)
    if (Error error = writeBelow(stage->path(), name, text))
      return error;
  for (const auto &[name, text] : files) {
    std::string place = (directory + "/" + name).str();
    if (std::error_code failure =
            fs::create_directories(path::parent_path(place), /*IgnoreExisting=*/true, fs::all_all))
      return cannotWrite(place, failure);
    if (std::error_code failure = fs::rename(stage->path() + "/" + name, place))
      return cannotWrite(place, failure);
  }
  return Error::success();
}

} // namespace kiln
