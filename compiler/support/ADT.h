//===- ADT.h - the project's access to LLVM -------------------------------===//
//
// Every other file includes this one and uses the names that it brings into namespace kiln. Having them in one place
// confines an LLVM upgrade to one file, and lets the build precompile the headers once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Casting.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <cassert>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kiln {

using llvm::ArrayRef;
using llvm::BitVector;
using llvm::cantFail;
using llvm::DenseMap;
using llvm::DenseSet;
using llvm::Error;
using llvm::ErrorInfo;
using llvm::Expected;
using llvm::formatv;
using llvm::function_ref;
using llvm::isa;
using llvm::MemoryBuffer;
using llvm::MutableArrayRef;
using llvm::raw_fd_ostream;
using llvm::raw_ostream;
using llvm::raw_string_ostream;
using llvm::SmallDenseMap;
using llvm::SmallString;
using llvm::SmallVector;
using llvm::SmallVectorImpl;
using llvm::StringMap;
using llvm::StringRef;
using llvm::StringSet;
using llvm::Twine;

namespace json = llvm::json;

} // namespace kiln
