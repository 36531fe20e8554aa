// Model configuration: a config.json if the input begins with a brace, else a TOML. An accepted one makes a well-formed
// module, whose text reads back; errors have a position.
#include "Fuzz.h"

#include "frontend/BuildModule.h"

using namespace kiln;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  SourceManager sources;
  StringRef text = inputText(data, size);
  bool isJson = text.starts_with("{");
  const SourceFile *file = sources.add(isJson ? "model/config.json" : "model.toml", text.str());
  Expected<ConfigValue> root = isJson ? parseJsonConfig(file) : parseToml(file);
  if (!root)
    return requirePlace(root.takeError());
  Expected<ModelConfig> config = readModelConfig(*root, "model", isJson);
  if (!config)
    return requirePlace(config.takeError());
  // All layers are alike, and a configuration may ask for a million of them.
  config->layers.value = std::min<int64_t>(config->layers.value, 2);
  requireRoundTrip(*buildModule(*config, {}, sources));
  return 0;
}
