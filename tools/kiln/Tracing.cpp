#include "tools/kiln/Tracing.h"

#include "support/files/File.h"

namespace kiln {

Error withTrace(StringRef path, StringRef command, function_ref<Error(Trace *trace)> work) {
  if (path.empty())
    return work(nullptr);
  if (Error error = checkWritable(path))
    return error;
  Trace trace;
  if (Error error = traced(&trace, TraceLane::Host, command, [&] { return work(&trace); }))
    return error;
  return writeFile(path, [&](raw_ostream &os) {
    trace.write(os, command);
    return Error::success();
  });
}

} // namespace kiln
