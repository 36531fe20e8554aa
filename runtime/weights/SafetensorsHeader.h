//===- SafetensorsHeader.h - checking a header ------------------------------===//
#pragma once

#include "runtime/weights/Safetensors.h"

namespace kiln {

/// Parses and checks the JSON of a header for a buffer of `bufferSize` bytes; errors as of
/// SafetensorsFile::open.
Expected<std::map<std::string, SafetensorsFile::Entry, std::less<>>>
parseSafetensorsHeader(StringRef path, StringRef header, uint64_t bufferSize);

} // namespace kiln
