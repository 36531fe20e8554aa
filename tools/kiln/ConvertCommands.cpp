#include "tools/convert/Convert.h"
#include "tools/kiln/Commands.h"
#include "tools/session/ModelOptions.h"
#include "tools/session/UsageError.h"

#include "support/process/Process.h"
#include "support/text/Printable.h"

namespace kiln {

Error run(const ImportCommand &command) {
  if (llvm::sys::fs::is_directory(command.file))
    return makeUsageError("FILE: " + command.file + " is a directory; expected a GGUF file or a model of llm.c");
  Expected<ConvertedModel> model = openForConversion(command.file);
  if (!model)
    return model.takeError();
  if (!command.output.empty())
    if (Error error = writeHuggingFace(*model, command.output))
      return error;
  standardOutput() << printable(describe(*model));
  return Error::success();
}

Error run(const ExportCommand &command) {
  if (isPlan(command.model))
    return makeUsageError("MODEL: " + command.model + " is a compiled plan; expected a model with weights");
  Expected<ConvertedModel> model = openForConversion(command.model);
  if (!model)
    return model.takeError();
  return command.format == "gguf" ? writeGguf(*model, command.output) : writeLlmc(*model, command.output);
}

} // namespace kiln
