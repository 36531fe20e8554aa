#include "tools/session/PlanOrigin.h"

#include "runtime/text/Vocabulary.h"
#include "runtime/weights/Checkpoint.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"

#include <filesystem>

namespace kiln {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

using Files = std::vector<std::string>;
using StdPath = std::filesystem::path;

static constexpr uint64_t headBytes = uint64_t(4) << 20, pieceBytes = 1024, pieces = 1024;

/// Appends these bytes of a file. They are read rather than mapped: a page fault reads much beside its page.
static Error append(std::string &covered, const RegularFile &file, StringRef name, uint64_t offset, uint64_t size) {
  const size_t before = covered.size();
  covered.resize(before + size);
  for (size_t done = 0; done < size;) {
    MutableArrayRef<char> rest(covered.data() + before + done, size - done);
    Expected<size_t> count = fs::readNativeFileSlice(file.descriptor(), rest, offset + done);
    if (!count)
      return makeFileError(name, "cannot read: " + llvm::toString(count.takeError()));
    if (*count == 0)
      return makeFileError(name, "cannot read: it is being cut short");
    done += *count;
  }
  return Error::success();
}

/// Appends the size of a file and the bytes that a digest covers.
static Error appendCovered(std::string &covered, StringRef name) {
  Expected<RegularFile> file = RegularFile::open(name);
  if (!file)
    return file.takeError();
  const uint64_t size = file->size();
  covered += std::to_string(size) + "\n";
  if (Error error = append(covered, *file, name, 0, std::min(size, headBytes)))
    return error;
  for (uint64_t i = 0; i < pieces && size > headBytes; ++i)
    if (Error error = append(covered, *file, name, (size - pieceBytes) * i / (pieces - 1), pieceBytes))
      return error;
  return Error::success();
}

/// The digest of these files; empty if there are none.
static Expected<std::string> digestOf(const Files &files) {
  if (files.empty())
    return std::string();
  std::string covered;
  for (const std::string &name : files)
    if (Error error = appendCovered(covered, name))
      return error;
  return sha256Hex(covered);
}

/// The path without symbolic links; it need not exist.
static StdPath resolve(const StdPath &given) {
  std::error_code failure;
  StdPath resolved = std::filesystem::weakly_canonical(given, failure);
  return failure ? given.lexically_normal() : resolved;
}

/// Both paths are relative to the current directory. A link as the model's last component stays: what lies beside the
/// link counts.
static std::string relativeTo(StringRef directory, StringRef model) {
  SmallString<128> from(directory), to(model);
  fs::make_absolute(from);
  fs::make_absolute(to);
  StdPath place = to.str().str(), name = place.filename();
  bool isNamed = !name.empty() && name != "." && name != "..";
  place = isNamed ? resolve(place.parent_path()) / name : resolve(place);
  return place.lexically_relative(resolve(from.str().str())).string();
}

Expected<std::optional<PlanOrigin>> describeOrigin(StringRef model, StringRef directory) {
  if (model.ends_with(".toml") || model.ends_with(".kiln"))
    return std::nullopt;
  PlanOrigin origin;
  origin.path = path::is_absolute(model) ? model.str() : relativeTo(directory, model);
  if (!json::isUTF8(origin.path))
    return std::nullopt;
  Expected<Files> weights = checkpointFiles(model);
  if (!weights)
    return weights.takeError();
  if (Error error = digestOf(*weights).moveInto(origin.weights))
    return error;
  if (Error error = digestOf(filesOfVocabulary(model)).moveInto(origin.vocabulary))
    return error;
  if (origin.weights.empty() && origin.vocabulary.empty())
    return std::nullopt;
  return origin;
}

std::string originPath(const PlanOrigin &origin, StringRef directory) {
  if (path::is_absolute(origin.path))
    return origin.path;
  SmallString<128> whole(directory), simple;
  path::append(whole, origin.path);
  simple = whole;
  path::remove_dots(simple, /*remove_dot_dot=*/true);
  // Behind a symbolic link, `..` may lead elsewhere.
  bool isSame = fs::equivalent(whole, simple) || (!fs::exists(whole) && !fs::exists(simple));
  return (isSame ? simple : whole).str().str();
}

/// `what` is weights or vocabulary, `remembered` its digest.
static Error checkDigest(StringRef what, StringRef remembered, Expected<Files> files, StringRef place,
                         StringRef directory) {
  std::string expected = (what + ": expected those that " + directory + " was compiled for").str();
  Expected<std::string> digest = files ? digestOf(*files) : files.takeError();
  if (!digest)
    return llvm::joinErrors(makeFileError(place, expected + ", which cannot be read; give --weights PATH"),
                            digest.takeError());
  if (*digest == remembered)
    return Error::success();
  if (digest->empty())
    return makeFileError(place, expected + ", got none; give --weights PATH");
  return makeFileError(place, expected + ", of digest " + remembered.take_front(12) + ", got others, of digest " +
                                  StringRef(*digest).take_front(12) + "; to use these, give --weights " + place);
}

Error checkOrigin(const PlanOrigin &origin, StringRef directory) {
  std::string place = originPath(origin, directory);
  if (!origin.weights.empty())
    if (Error error = checkDigest("weights", origin.weights, checkpointFiles(place), place, directory))
      return error;
  if (origin.vocabulary.empty())
    return Error::success();
  return checkDigest("vocabulary", origin.vocabulary, filesOfVocabulary(place), place, directory);
}

} // namespace kiln
