#include "support/files/File.h"

#include "support/Diagnostic.h"
#include "support/files/Leftovers.h"

#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace kiln {

namespace fs = llvm::sys::fs;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static Error cannotRead(StringRef file, const Twine &reason) { return makeFileError(file, "cannot read: " + reason); }

static std::error_code lastFileError() { return {errno, std::generic_category()}; }

static StringRef kindName(fs::file_type type) {
  switch (type) {
  case fs::file_type::fifo_file:
    return "a pipe";
  case fs::file_type::socket_file:
    return "a socket";
  case fs::file_type::block_file:
  case fs::file_type::character_file:
    return "a device";
  default:
    return "something else";
  }
}

/// Error: the file does not exist, or has none of these types.
static Error expectType(StringRef file, const fs::file_status &status, ArrayRef<fs::file_type> types) {
  if (llvm::is_contained(types, status.type()))
    return Error::success();
  if (status.type() == fs::file_type::directory_file)
    return cannotRead(file, "is a directory");
  return cannotRead(file, "expected a regular file, got " + kindName(status.type()));
}

Expected<RegularFile> RegularFile::open(StringRef path) {
  fs::file_status status;
  // Check before opening: opening waits for the other end of a pipe, and may affect a device.
  if (std::error_code failure = fs::status(path, status))
    return cannotRead(path, failure.message());
  if (Error error = expectType(path, status, fs::file_type::regular_file))
    return error;
  Expected<fs::file_t> file = fs::openNativeFileForRead(path);
  if (!file)
    return cannotRead(path, llvm::errorToErrorCode(file.takeError()).message());
  RegularFile result(*file, 0);
  if (std::error_code failure = fs::status(*file, status))
    return cannotRead(path, failure.message());
  if (Error error = expectType(path, status, fs::file_type::regular_file))
    return error;
  result.bytes = status.getSize();
  return result;
}

RegularFile::~RegularFile() {
  if (opened != fs::kInvalidFile)
    fs::closeFile(opened);
}

/// Reads to the end. `expected`: the size that the system reports; files of /proc are longer.
static Expected<std::string> readAll(StringRef path, int file, uint64_t expected) {
  auto tooLarge = [&](const Twine &size) {
    return cannotRead(path, "expected at most " + Twine(mostFileBytes) + " bytes, got " + size);
  };
  if (expected > mostFileBytes)
    return tooLarge(Twine(expected));
  constexpr uint64_t piece = 1 << 16;
  std::string text;
  for (size_t used = 0;;) {
    if (used == text.size())
      text.resize(used == 0 ? std::max(expected + 1, piece) : std::min<uint64_t>(2 * used, mostFileBytes + 1));
    ssize_t got = read(file, text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return cannotRead(path, lastFileError().message());
    used += got;
    if (used > mostFileBytes)
      return tooLarge("more");
    if (got == 0) {
      text.resize(used);
      return text;
    }
  }
}

Expected<std::string> readFile(StringRef path) {
  Expected<RegularFile> file = RegularFile::open(path);
  if (!file)
    return file.takeError();
  return readAll(path, file->descriptor(), file->size());
}

StringRef inputName(StringRef path) { return path == "-" ? "standard input" : path; }

Expected<std::string> readInput(StringRef path) {
  if (path == "-")
    return readAll(inputName(path), STDIN_FILENO, 0);
  fs::file_status status;
  if (std::error_code failure = fs::status(path, status))
    return cannotRead(path, failure.message());
  using Type = fs::file_type;
  if (Error error = expectType(path, status, {Type::regular_file, Type::fifo_file, Type::character_file}))
    return error;
  Expected<fs::file_t> file = fs::openNativeFileForRead(path);
  if (!file)
    return cannotRead(path, llvm::errorToErrorCode(file.takeError()).message());
  auto close = llvm::make_scope_exit([&] { fs::closeFile(*file); });
  return readAll(path, *file, status.type() == Type::regular_file ? status.getSize() : 0);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// A full disk is reported at the latest when the file is closed.
Error writeInPlace(StringRef file, WriteContents write) {
  auto cannotWrite = [&](std::error_code reason) { return makeFileError(file, "cannot write: " + reason.message()); };
  std::error_code failure;
  raw_fd_ostream os(file, failure);
  if (failure)
    return cannotWrite(failure);
  Error error = write(os);
  os.close();
  if (os.has_error()) {
    failure = os.error();
    os.clear_error();
    if (!error)
      error = cannotWrite(failure);
  }
  return error;
}

/// What a finished temporary is renamed to: for a link its target, since a rename would replace the link itself, and a
/// target that is written in place may be the very file that is mapped and read meanwhile. None for what is written in
/// place: a rename would replace a device or a pipe by a file.
static std::optional<std::string> findReplaced(StringRef file, int links = 40) {
  if (fs::is_symlink_file(file) && !fs::exists(file)) { // a link to what is yet to be written
    std::error_code failure;
    const std::filesystem::path link = file.str(), target = std::filesystem::read_symlink(link, failure);
    if (failure || links == 0)
      return std::nullopt;
    return findReplaced((link.parent_path() / target).string(), links - 1);
  }
  if (fs::exists(file) && !fs::is_regular_file(file))
    return std::nullopt;
  if (!fs::exists(file) || !fs::is_symlink_file(file))
    return file.str();
  SmallString<128> target;
  if (fs::real_path(file, target))
    return std::nullopt; // an open file that has no name any more, by way of /dev/stdout
  return target.str().str();
}

Error checkWritable(StringRef file) {
  auto cannotWrite = [&](std::error_code reason) { return makeFileError(file, "cannot write: " + reason.message()); };
  if (fs::is_directory(file))
    return cannotWrite(std::make_error_code(std::errc::is_a_directory));
  if (std::optional<std::string> replaced = findReplaced(file))
    return Temporary::create(*replaced, Temporary::Kind::File).takeError();
  std::error_code failure = fs::access(file, fs::AccessMode::Write);
  return failure ? cannotWrite(failure) : Error::success();
}

static Error replaceFileBy(StringRef file, WriteContents write) {
  std::optional<std::string> replaced = findReplaced(file);
  if (!replaced)
    return writeInPlace(file, write);
  Expected<Temporary> temporary = Temporary::create(*replaced, Temporary::Kind::File);
  if (!temporary)
    return temporary.takeError();
  if (Error error = writeInPlace(temporary->path(), write)) {
    Diagnostic first = takeDiagnostics(std::move(error)).front();
    // The user does not know the temporary file.
    return makeFileError(first.file == temporary->path() ? file : StringRef(first.file), first.message);
  }
  return temporary->moveToTarget();
}

static void sweepLeftoversOf(StringRef file) {
  if (std::optional<std::string> replaced = findReplaced(file))
    sweepLeftovers(*replaced);
}

Error writeFile(StringRef file, WriteContents write) {
  sweepLeftoversOf(file);
  return replaceFileBy(file, write);
}

Error writeInPlace(StringRef file, StringRef contents) {
  return writeInPlace(file, [&](raw_ostream &os) { return (os << contents, Error::success()); });
}

Error writeFile(StringRef file, StringRef contents) {
  sweepLeftoversOf(file);
  return replaceFile(file, contents);
}

Error replaceFile(StringRef file, StringRef contents) {
  return replaceFileBy(file, [&](raw_ostream &os) { return (os << contents, Error::success()); });
}

std::string sha256Hex(StringRef bytes) {
  llvm::SHA256 hash;
  hash.update(bytes);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

} // namespace kiln
