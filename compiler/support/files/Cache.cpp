#include "support/files/Cache.h"

#include "support/Diagnostic.h"
#include "support/files/Leftovers.h"

#include <unistd.h>

namespace kiln {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

std::string defaultCacheDirectory() {
  if (auto given = llvm::sys::Process::GetEnv("KILN_CACHE"))
    return *given;
  SmallString<128> folder;
  if (!path::cache_directory(folder))
    return "";
  path::append(folder, "kiln");
  return folder.str().str();
}

Error openCache(StringRef directory) {
  auto cannotOpen = [&](std::error_code failure) {
    return makeFileError(directory,
                         "cannot open the cache: " + failure.message() + "; set KILN_CACHE to a directory of your own");
  };
  if (std::error_code failure = fs::create_directories(directory, /*IgnoreExisting=*/true, fs::owner_all))
    return cannotOpen(failure);
  fs::file_status status;
  if (std::error_code failure = fs::status(directory, status))
    return cannotOpen(failure);
  if (status.type() != fs::file_type::directory_file)
    return cannotOpen(std::make_error_code(std::errc::not_a_directory));
  if (status.getUser() != geteuid())
    return makeFileError(directory, "cache: expected a directory of your own, since what is in it is run, got one of "
                                    "user " +
                                        Twine(status.getUser()) + "; set KILN_CACHE to another");
  if ((status.permissions() & (fs::group_write | fs::others_write)) != 0)
    return makeFileError(directory, "cache: expected a directory that only you can write to, since what is in it is "
                                    "run, got one that others can; take that from them with chmod go-w, or set "
                                    "KILN_CACHE to another");
  sweepLeftoversIn(directory);
  return Error::success();
}

} // namespace kiln
