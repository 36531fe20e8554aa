#include "support/File.h"

#include "support/Diagnostic.h"

#include <csignal>

namespace kiln {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

Expected<std::string> readFile(StringRef file) {
  if (fs::is_directory(file))
    return makeFileError(file, "cannot read: is a directory");
  auto buffer = MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return makeFileError(file, "cannot read: " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

Expected<std::string> readInput(StringRef path) { return readFile(path == "-" ? "/dev/stdin" : path); }

static Error cannotWrite(StringRef file, std::error_code reason) {
  return makeFileError(file, "cannot write: " + reason.message());
}

/// Writes without the rename; a full disk shows at the close at the latest.
static Error writeInPlace(StringRef file, StringRef contents) {
  std::error_code failure;
  raw_fd_ostream os(file, failure);
  if (failure)
    return cannotWrite(file, failure);
  os << contents;
  os.close();
  if (os.has_error()) {
    failure = os.error();
    os.clear_error();
    return cannotWrite(file, failure);
  }
  return Error::success();
}

Error writeFile(StringRef file, StringRef contents) {
  // Renaming would put a file in the place of a device or a link.
  if (fs::exists(file) && (!fs::is_regular_file(file) || fs::is_symlink_file(file)))
    return writeInPlace(file, contents);
  SmallString<128> temporary;
  if (std::error_code failure = fs::createUniqueFile(file + ".tmp-%%%%%%", temporary))
    return cannotWrite(file, failure);
  llvm::sys::RemoveFileOnSignal(temporary);
  auto keep = llvm::make_scope_exit([&] { llvm::sys::DontRemoveFileOnSignal(temporary); });
  if (Error error = writeInPlace(temporary, contents)) {
    fs::remove(temporary);
    std::vector<Diagnostic> diagnostics = takeDiagnostics(std::move(error));
    return makeFileError(file, diagnostics.front().message);
  }
  if (std::error_code failure = fs::rename(temporary, file)) {
    fs::remove(temporary);
    return cannotWrite(file, failure);
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Directories
//===----------------------------------------------------------------------===//

/// As long as one lives, the first of SIGINT, SIGTERM and SIGHUP waits; then the program ends as by SIGINT.
class InterruptDelay {
public:
  InterruptDelay() {
    isInterrupted = 0;
    llvm::sys::SetInterruptFunction([] { isInterrupted = 1; });
  }
  ~InterruptDelay() {
    llvm::sys::SetInterruptFunction(nullptr);
    if (isInterrupted)
      std::raise(SIGINT);
  }

private:
  /// Of the process, as signals are.
  static inline volatile std::sig_atomic_t isInterrupted = 0;
};

/// Makes an empty directory of a name that is free, `prefix` and some letters.
static Expected<std::string> makeStage(StringRef target, const Twine &prefix) {
  SmallString<128> stage;
  fs::createUniquePath(prefix + "%%%%%%", stage, /*MakeAbsolute=*/false);
  if (std::error_code failure = fs::create_directory(stage, /*IgnoreExisting=*/false, fs::all_all))
    return cannotWrite(target, failure);
  return stage.str().str();
}

/// Whether a relative path has the pattern's components.
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

/// Error: a file below the directory that fits none of the patterns.
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

Expected<StagedDirectory> StagedDirectory::create(StringRef target, ArrayRef<StringRef> owned) {
  target = target.rtrim('/');
  SmallString<128> real(target);
  if (fs::exists(target)) {
    if (!fs::is_directory(target))
      return makeFileError(target, "cannot write: expected a directory, got a file");
    if (Error error = expectOwned(target, owned))
      return error;
    // A symbolic link stays one.
    if (std::error_code failure = fs::real_path(target, real))
      return cannotWrite(target, failure);
  }
  StringRef parent = path::parent_path(real);
  if (!parent.empty())
    if (std::error_code failure = fs::create_directories(parent))
      return cannotWrite(parent, failure);
  Expected<std::string> stage = makeStage(target, real + ".tmp-");
  if (!stage)
    return stage.takeError();
  return StagedDirectory(real.str().str(), std::move(*stage), owned);
}

StagedDirectory::StagedDirectory(std::string target, std::string stage, ArrayRef<StringRef> owned)
    : delay(std::make_unique<InterruptDelay>()), target(std::move(target)), stage(std::move(stage)), owned(owned) {}

StagedDirectory::StagedDirectory(StagedDirectory &&other) noexcept
    : delay(std::move(other.delay)), target(std::move(other.target)), stage(std::exchange(other.stage, {})),
      owned(std::move(other.owned)) {}

StagedDirectory::~StagedDirectory() {
  if (!stage.empty())
    fs::remove_directories(stage);
}

Error StagedDirectory::write(StringRef relativePath, StringRef contents) {
  SmallString<128> file(stage);
  path::append(file, relativePath);
  if (std::error_code failure = fs::create_directories(path::parent_path(file), /*IgnoreExisting=*/true, fs::all_all))
    return cannotWrite(file, failure);
  return writeInPlace(file, contents);
}

Error StagedDirectory::commit() {
  // A directory cannot be renamed over one that has files in it, so the old one steps aside first; a failure
  // between the two renames puts it back.
  SmallString<128> old;
  if (fs::exists(target)) {
    if (Error error = expectOwned(target, owned))
      return error;
    fs::createUniquePath(target + ".old-%%%%%%", old, /*MakeAbsolute=*/false);
    if (std::error_code failure = fs::rename(target, old))
      return cannotWrite(target, failure);
  }
  if (std::error_code failure = fs::rename(stage, target)) {
    if (!old.empty())
      fs::rename(old, target);
    return cannotWrite(target, failure);
  }
  stage.clear();
  if (!old.empty())
    fs::remove_directories(old);
  return Error::success();
}

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
  // Staged inside, on the same file system; moving is then all that is left to fail.
  Expected<std::string> stage = makeStage(directory, directory + "/.tmp-");
  if (!stage)
    return stage.takeError();
  StagedDirectory parts(directory.str(), std::move(*stage), {});
  for (const auto &[name, text] : files)
    if (Error error = parts.write(name, text))
      return error;
  for (const auto &[name, text] : files) {
    std::string place = (directory + "/" + name).str();
    if (std::error_code failure =
            fs::create_directories(path::parent_path(place), /*IgnoreExisting=*/true, fs::all_all))
      return cannotWrite(place, failure);
    if (std::error_code failure = fs::rename(parts.stage + "/" + name, place))
      return cannotWrite(place, failure);
  }
  return Error::success();
}

std::string sha256Hex(StringRef bytes) {
  llvm::SHA256 hash;
  hash.update(bytes);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

} // namespace kiln
