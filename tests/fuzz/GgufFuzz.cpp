// A GGUF file: a model, a vocabulary, or both.
#include "ModelFiles.h"

using namespace kiln;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const FuzzDirectory directory;
  directory.write("model.gguf", inputText(data, size));
  checkModelFile(directory.path("model.gguf"));
  checkVocabularyOf(directory.path("model.gguf"));
  return 0;
}
