#include "ModelFiles.h"

#include "formats/ModelFile.h"
#include "runtime/text/Tokenizer.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/PackWeight.h"
#include "support/text/Json.h"

namespace kiln {

/// Packs a tensor in the order in which the file has it: the bytes are then the file's.
static void packAsStored(StringRef name, const TensorView &view, const StoredTensor &stored) {
  WeightRecipe recipe{.source = name.str(),
                      .sourceShape = view.shape,
                      .transpose = view.isTransposed,
                      .shape = view.shape,
                      .dtype = view.dtype};
  if (recipe.transpose)
    std::swap(recipe.shape[0], recipe.shape[1]);
  Expected<int64_t> size = packedSize(recipe);
  require(static_cast<bool>(size), "a tensor of a file without a size");
  std::vector<uint8_t> packed(*size);
  cantFail(packWeight(recipe, view, packed));
  require(ArrayRef(packed) == view.bytes, "a tensor that is packed otherwise than it is");
  require(stored.type == StoredType::Q8 || view.bytes == stored.bytes, "a tensor of other bytes than the file's");
}

static void readTensors(const ModelFile &model) {
  Expected<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::open(model.path);
  require(static_cast<bool>(checkpoint), "a model that opens once only");
  for (const auto &[name, stored] : model.tensors) {
    Expected<TensorView> view = (*checkpoint)->tensor(name, stored.shape);
    require(static_cast<bool>(view), "a tensor that the model has and its checkpoint has not");
    packAsStored(name, *view, stored);
  }
}

void checkModelFile(StringRef path) {
  Expected<std::shared_ptr<const ModelFile>> model = openModelFile(path);
  if (!model) {
    requireFile(model.takeError());
    return;
  }
  SourceManager sources;
  cantFail(parseJsonObject(sources.add("config.json", (*model)->config)).takeError());
  readTensors(**model);
}

void checkVocabularyOf(StringRef path) {
  bool isThere = hasVocabulary(path);
  Expected<Tokenizer> tokenizer = Tokenizer::load(path);
  if (!tokenizer) {
    requireFile(tokenizer.takeError());
    return;
  }
  require(isThere, "a vocabulary that loads and is not there");
  StringRef text = "ab <|endoftext|>\n\xff";
  std::string valid = "ab <|endoftext|>\n\xEF\xBF\xBD";
  requireEqual(cantFail(tokenizer->decode(tokenizer->encode(text))), valid, "a text that is not itself");
  cantFail(tokenizer->decode(tokenizer->encode(text, /*special=*/true)));
}

} // namespace kiln
