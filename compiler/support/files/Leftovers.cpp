#include "support/files/Leftovers.h"

#include "support/Diagnostic.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

/// The part of a temporary's name after its target's name, before the digits.
static constexpr char temporaryMark[] = ".tmp-";
static constexpr size_t temporaryDigits = 12;

//===----------------------------------------------------------------------===//
// Temporary
//===----------------------------------------------------------------------===//

static std::error_code lastError() { return {errno, std::generic_category()}; }

/// Makes and opens a new file or directory. `opened` stays negative if the name is taken, or if another process has
/// removed the directory meanwhile.
static std::error_code openNew(const char *name, Temporary::Kind kind, int &opened) {
  if (kind == Temporary::Kind::File) {
    opened = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return opened < 0 && errno != EEXIST ? lastError() : std::error_code();
  }
  if (mkdir(name, 0777) != 0)
    return errno != EEXIST ? lastError() : std::error_code();
  opened = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return opened < 0 && errno != ENOENT ? lastError() : std::error_code();
}

/// Locks a new file, and returns whether its name still refers to it: a sweep may have removed it before it was locked.
/// On a file system without locks, a sweep cannot lock either, and removes nothing.
static bool lockNew(const char *name, int opened) {
  while (flock(opened, LOCK_EX) != 0 && errno == EINTR)
    ;
  struct stat ours, named;
  return fstat(opened, &ours) == 0 && lstat(name, &named) == 0 && ours.st_dev == named.st_dev &&
         ours.st_ino == named.st_ino;
}

Expected<Temporary> Temporary::create(StringRef target, Kind kind) {
  constexpr int attempts = 128;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    SmallString<128> name;
    fs::createUniquePath(target + temporaryMark + std::string(temporaryDigits, '%'), name, /*MakeAbsolute=*/false);
    int opened = -1;
    if (std::error_code failure = openNew(name.c_str(), kind, opened))
      return makeFileError(target, "cannot write: " + failure.message());
    if (opened < 0)
      continue;
    Temporary result(target.str(), name.str().str(), kind, opened);
    if (lockNew(name.c_str(), opened))
      return result;
    result.release();
  }
  return makeFileError(target, "cannot write: expected a free name for a temporary file beside it, found none");
}

Temporary::Temporary(std::string target, std::string name, Kind kind, int opened)
    : target(std::move(target)), name(std::move(name)), opened(opened) {
  if (kind == Kind::File)
    llvm::sys::RemoveFileOnSignal(this->name);
}

Temporary::Temporary(Temporary &&other) noexcept
    : target(std::move(other.target)), name(std::exchange(other.name, {})), opened(std::exchange(other.opened, -1)) {}

Temporary::~Temporary() {
  if (!name.empty()) {
    if (fs::is_directory(name))
      fs::remove_directories(name);
    else
      fs::remove(name);
    release();
  }
  if (opened >= 0)
    close(opened);
}

void Temporary::release() {
  llvm::sys::DontRemoveFileOnSignal(name);
  name.clear();
}

Error Temporary::moveToTarget() {
  if (std::error_code failure = fs::rename(name, target))
    return makeFileError(target, "cannot write: " + failure.message());
  release();
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Sweeping
//===----------------------------------------------------------------------===//

/// Whether a file's name is that of a temporary: for `target`, or for any target if that is empty.
static bool isTemporary(StringRef file, StringRef target) {
  auto [name, digits] = file.rsplit(temporaryMark);
  return digits.size() == temporaryDigits && llvm::all_of(digits, llvm::isHexDigit) &&
         (target.empty() ? !name.empty() : name == target);
}

static void removeUnlessLocked(const std::string &name) {
  // Opening must not block on a pipe, nor follow a link.
  int opened = open(name.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (opened < 0)
    return;
  auto closeIt = llvm::make_scope_exit([&] { close(opened); });
  struct stat status;
  if (fstat(opened, &status) != 0 || flock(opened, LOCK_EX | LOCK_NB) != 0)
    return;
  // Removed by name: if the process has moved it meanwhile, the name no longer exists.
  if (S_ISDIR(status.st_mode))
    fs::remove_directories(name);
  else if (S_ISREG(status.st_mode))
    fs::remove(name);
}

static void sweep(StringRef directory, StringRef target) {
  std::vector<std::string> found;
  std::error_code failure;
  for (fs::directory_iterator file(directory, failure, /*follow_symlinks=*/false), end; file != end && !failure;
       file.increment(failure))
    if (isTemporary(path::filename(file->path()), target))
      found.push_back(file->path());
  llvm::for_each(found, removeUnlessLocked);
}

void sweepLeftovers(StringRef target) {
  StringRef directory = path::parent_path(target);
  sweep(directory.empty() ? "." : directory, path::filename(target));
}

void sweepLeftoversIn(StringRef directory) { sweep(directory, {}); }

} // namespace kiln
