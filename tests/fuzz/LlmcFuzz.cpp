// llm.c's files: a model, or, if the input begins as one, a tokenizer, which is read beside a model too.
#include "ModelFiles.h"

#include "formats/LlmcTokenizer.h"

#include <cstring>

using namespace kiln;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const FuzzDirectory directory;
  StringRef bytes = inputText(data, size);
  std::string tokenizer = directory.path("gpt2_tokenizer.bin"), model = directory.path("model.bin");
  int32_t magic = 0;
  if (size >= sizeof magic)
    std::memcpy(&magic, data, sizeof magic);
  if (magic == llmcTokenizerMagic) {
    directory.write("gpt2_tokenizer.bin", bytes);
    checkVocabularyOf(tokenizer);
    llvm::sys::fs::remove(tokenizer);
    return 0;
  }
  directory.write("model.bin", bytes);
  checkModelFile(model);
  return 0;
}
