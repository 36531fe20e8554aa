//===- Tracing.h - the option --trace -------------------------------------===//
#pragma once

#include "support/process/Trace.h"

namespace kiln {

/// Does the work of `command`, `kiln run`, and writes its trace to `path` if it succeeds. If `path` is empty, work gets
/// no trace. Error: `path` cannot be written, before the work begins where that can be known; errors of the work.
Error withTrace(StringRef path, StringRef command, function_ref<Error(Trace *trace)> work);

} // namespace kiln
