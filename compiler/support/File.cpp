#include "support/File.h"

#include "support/Diagnostic.h"

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
  SmallString<128> temporary;
  if (std::error_code failure = fs::createUniqueFile(file + ".tmp-%%%%%%", temporary))
    return cannotWrite(file, failure);
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

Error writeFiles(StringRef directory, const std::map<std::string, std::string> &files) {
  for (const auto &[name, contents] : files) {
    SmallString<128> file(directory);
    path::append(file, name);
    if (std::error_code failure = fs::create_directories(path::parent_path(file)))
      return cannotWrite(file, failure);
    if (Error error = writeFile(file, contents))
      return error;
  }
  return Error::success();
}

/// Whether a directory may be removed for its successor, as StagedDirectory::create says.
template <class Names> static Error checkReplaceable(StringRef target, const Names &names) {
  if (!fs::exists(target))
    return Error::success();
  if (!fs::is_directory(target))
    return makeFileError(target, "cannot write: expected a directory, got a file");
  std::error_code failure;
  std::set<std::string> found;
  for (fs::directory_iterator at(target, failure), end; !failure && at != end; at.increment(failure))
    found.insert(path::filename(at->path()).str());
  if (failure)
    return cannotWrite(target, failure);
  for (const std::string &name : found)
    if (!llvm::is_contained(names, name))
      return makeFileError(target, "cannot write: expected a new or empty directory or an earlier result, got one that "
                                   "holds " + name);
  if (!found.empty() && !found.count(std::string(*names.begin())))
    return makeFileError(target, "cannot write: expected a new or empty directory or an earlier result, got one without " +
                                     Twine(*names.begin()));
  return Error::success();
}

Expected<StagedDirectory> StagedDirectory::create(StringRef target, ArrayRef<StringRef> names) {
  target = target.rtrim('/');
  if (Error error = checkReplaceable(target, names))
    return error;
  StringRef parent = path::parent_path(target);
  if (!parent.empty())
    if (std::error_code failure = fs::create_directories(parent))
      return cannotWrite(parent, failure);
  SmallString<128> stage;
  fs::createUniquePath(target + ".tmp-%%%%%%", stage, /*MakeAbsolute=*/false);
  if (std::error_code failure = fs::create_directory(stage, /*IgnoreExisting=*/false))
    return cannotWrite(target, failure);
  return StagedDirectory(target.str(), names, stage.str().str());
}

StagedDirectory::StagedDirectory(std::string target, ArrayRef<StringRef> names, std::string stage)
    : target(std::move(target)), names(names.begin(), names.end()), stage(std::move(stage)) {}

StagedDirectory::StagedDirectory(StagedDirectory &&other) noexcept
    : target(std::move(other.target)), names(std::move(other.names)), stage(std::exchange(other.stage, {})) {}

StagedDirectory::~StagedDirectory() {
  if (!stage.empty())
    fs::remove_directories(stage);
}

Error StagedDirectory::write(StringRef relativePath, StringRef contents) {
  SmallString<128> file(stage);
  path::append(file, relativePath);
  if (std::error_code failure = fs::create_directories(path::parent_path(file)))
    return cannotWrite(file, failure);
  return writeInPlace(file, contents);
}

Error StagedDirectory::commit() {
  if (Error error = checkReplaceable(target, names))
    return error;
  // A directory cannot be renamed over one that has files in it, so the old one steps aside first; a failure
  // between the two renames puts it back.
  SmallString<128> old;
  if (fs::exists(target)) {
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

std::string sha256Hex(StringRef bytes) {
  llvm::SHA256 hash;
  hash.update(bytes);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

} // namespace kiln
