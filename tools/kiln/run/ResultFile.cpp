#include "tools/kiln/run/ResultFile.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/files/MappedFile.h"
#include "support/process/Process.h"
#include "support/text/Json.h"

#include <sys/file.h>

namespace kiln {

namespace fs = llvm::sys::fs;

/// Error: a file that has something in it.
static Error checkEmpty(StringRef path) {
  uint64_t size = 0;
  if (fs::is_regular_file(path) && !fs::file_size(path, size) && size > 0)
    return makeFileError(path, "expected no file or an empty one, got " + Twine(size) +
                                   " bytes; give --resume to go on with it, or remove it");
  return Error::success();
}

Expected<ResultFile> ResultFile::create(StringRef path) {
  ResultFile file(path);
  if (path == "-")
    return file;
  if (Error error = checkEmpty(path))
    return error;
  if (Error error = checkWritable(path))
    return error;
  return file;
}

/// Opens the file to append lines. Two processes with one file would put their lines between each other's.
Error ResultFile::open() {
  int descriptor = -1;
  if (std::error_code failure = fs::openFileForWrite(path, descriptor, fs::CD_OpenAlways, fs::OF_Append))
    return makeFileError(path, "cannot write: " + failure.message());
  os = std::make_unique<llvm::raw_fd_ostream>(descriptor, /*shouldClose=*/true);
  // Where a file system has no locks, it works without.
  if (fs::is_regular_file(path) && flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    os.reset();
    return makeFileError(path, "another process is writing it");
  }
  return Error::success();
}

/// The same of a new file, which another process may have written since create().
Error ResultFile::openNew() {
  if (Error error = open())
    return error;
  Error error = checkEmpty(path);
  if (error)
    os.reset();
  return error;
}

/// Checks a line of a resumed file against its request.
static Error checkResult(StringRef path, StringRef text, unsigned number, const LineRequest &request) {
  const SourceFile file{path.str(), text.str(), /*linesBefore=*/number};
  Expected<JsonObject> object = parseJsonObject(&file);
  if (!object)
    return object.takeError();
  json::Array prompt(request.generation.prompt);
  const json::Value *tokens = object->values.get("prompt_tokens"), *id = object->values.get("id");
  const json::Value wanted = std::move(prompt), none = nullptr;
  if (!tokens || *tokens != wanted)
    return makeError(object->valueLoc("prompt_tokens"),
                     "prompt_tokens: expected those of line " + Twine(request.line) +
                         " of the input, got others; --resume goes on with a file of the same input");
  if ((id ? *id : none) != request.id)
    return makeError(object->valueLoc("id"), "id: expected that of line " + Twine(request.line) +
                                                 " of the input, got another; --resume goes on with a file of the "
                                                 "same input");
  return Error::success();
}

/// Counts the whole lines of a file in `lines`, and their bytes in `bytes`.
static Error checkResults(StringRef path, ArrayRef<LineRequest> requests, size_t &lines, uint64_t &bytes) {
  Expected<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  StringRef text(reinterpret_cast<const char *>(file->bytes().data()), file->bytes().size());
  for (size_t end; (end = text.find('\n', bytes)) != StringRef::npos; bytes = end + 1, ++lines) {
    if (lines == requests.size())
      return makeFileError(path, "expected at most a line for each of " + Twine(lines) +
                                     " results, got more; --resume "
                                     "goes on with a file of the same input");
    if (Error error = checkResult(path, text.slice(bytes, end), static_cast<unsigned>(lines), requests[lines]))
      return error;
  }
  return Error::success();
}

Expected<ResultFile> ResultFile::resume(StringRef path, ArrayRef<LineRequest> requests) {
  ResultFile file(path);
  if (Error error = checkWritable(path))
    return error;
  if (!fs::exists(path))
    return file;
  if (Error error = file.open())
    return error;
  uint64_t bytes = 0;
  if (Error error = checkResults(path, requests, file.found, bytes))
    return error;
  file.next = file.found;
  int descriptor = -1;
  std::error_code failure = fs::openFileForReadWrite(path, descriptor, fs::CD_OpenExisting, fs::OF_None);
  if (!failure) {
    failure = fs::resize_file(descriptor, bytes);
    llvm::sys::Process::SafelyCloseFileDescriptor(descriptor);
  }
  if (failure)
    return makeFileError(path, "cannot write: " + failure.message());
  return file;
}

Error ResultFile::write(StringRef line) {
  if (path == "-") {
    standardOutput() << line;
    standardOutput().flush();
    return flushStandardOutput();
  }
  if (!os)
    if (Error error = openNew())
      return error;
  *os << line;
  os->flush();
  std::error_code failure = os->error();
  os->clear_error();
  return failure ? makeFileError(path, "cannot write: " + failure.message()) : Error::success();
}

Error ResultFile::add(size_t request, std::string line) {
  waiting[request] = std::move(line) + "\n";
  std::string ready;
  for (auto it = waiting.begin(); it != waiting.end() && it->first == next; it = waiting.erase(it), ++next)
    ready += it->second;
  return ready.empty() ? Error::success() : write(ready);
}

} // namespace kiln
