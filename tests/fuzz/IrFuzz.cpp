// IR text: one module. A parsed module prints, and its text parses and prints the same; errors have a position.
#include "Fuzz.h"

#include "ir/Parser.h"
#include "ops/OpTable.h"

using namespace kiln;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  SourceManager sources;
  const SourceFile *file = sources.add("input.kiln", inputText(data, size).str());
  Expected<std::unique_ptr<Module>> module = parseModule(file, sources, opTable());
  if (module)
    requireRoundTrip(**module);
  else
    requirePlace(module.takeError());
  return 0;
}
