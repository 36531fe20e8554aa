//===- LogitsFile.h - logits that another program computed ---------------------===//
//
// A safetensors file with `tokens`, I32 or I64 [N,T], and `logits`, F32, F16 or BF16 [N,T,V]: of N sequences of T token
// ids, the logits that follow each token. It has no other tensors.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/weights/Safetensors.h"

namespace kiln {

class LogitsFile {
public:
  /// Whether a path names such a file: it ends in .safetensors.
  static bool isPath(StringRef path) { return path.ends_with(".safetensors"); }

  /// Error: as of SafetensorsFile::open; tensors of other names, types or shapes; no token; an id outside 0..V-1.
  static Expected<LogitsFile> open(StringRef path);

  int64_t sequences() const { return view.shape[0]; }
  int64_t length() const { return view.shape[1]; }
  int64_t vocabulary() const { return view.shape[2]; }

  /// T ids.
  ArrayRef<int32_t> tokens(int64_t sequence) const { return ArrayRef(ids).slice(sequence * length(), length()); }
  /// The V logits that follow a token.
  std::vector<float> logits(int64_t sequence, int64_t token) const;

private:
  std::vector<int32_t> ids;
  TensorView view; ///< keeps the file mapped
};

} // namespace kiln
