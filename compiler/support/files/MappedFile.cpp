#include "support/files/MappedFile.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"

namespace kiln {

namespace fs = llvm::sys::fs;

Expected<MappedFile> MappedFile::open(StringRef path) {
  Expected<RegularFile> file = RegularFile::open(path);
  if (!file)
    return file.takeError();
  MappedFile mapped(path);
  if (file->size() == 0)
    return mapped;
  std::error_code reason;
  mapped.mapping = fs::mapped_file_region(file->descriptor(), fs::mapped_file_region::readonly, file->size(),
                                          /*offset=*/0, reason);
  if (reason)
    return makeFileError(path, "cannot read: " + reason.message());
  return mapped;
}

ArrayRef<uint8_t> MappedFile::bytes() const {
  if (!mapping)
    return {};
  return {reinterpret_cast<const uint8_t *>(mapping.const_data()), mapping.size()};
}

} // namespace kiln
