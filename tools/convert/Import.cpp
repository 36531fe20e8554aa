#include "runtime/text/VocabularyText.h"
#include "runtime/weights/SafetensorsWriter.h"
#include "support/files/File.h"
#include "support/files/StagedDirectory.h"
#include "tools/convert/Convert.h"

namespace kiln {

static constexpr StringRef importedFiles[] = {"config.json", "model.safetensors", "vocab.json", "merges.txt",
                                              "added_tokens.json"};

static Error writeSafetensors(const ConvertedModel &model, raw_ostream &os) {
  std::vector<SafetensorsItem> items;
  std::map<std::string, const ConvertedModel::Tensor *> byName;
  for (const ConvertedModel::Tensor &tensor : model.tensors) {
    // transformers puts all but the head below `transformer`.
    std::string name = (tensor.name == "lm_head.weight" ? "" : "transformer.") + tensor.name;
    items.push_back({name, tensor.dtype, tensor.shape});
    byName[name] = &tensor;
  }
  sortForSafetensors(items);
  os << safetensorsHeader(items);
  for (const SafetensorsItem &item : items)
    if (Error error = writeTensor(os, model, *byName[item.name], item.dtype, /*transposes=*/false))
      return error;
  return Error::success();
}

Error writeHuggingFace(const ConvertedModel &model, StringRef directory) {
  Expected<StagedDirectory> stage = StagedDirectory::create(directory, importedFiles);
  if (!stage)
    return stage.takeError();
  std::map<std::string, std::string> files;
  if (model.vocabulary)
    files = vocabularyFiles(*model.vocabulary);
  files["config.json"] = model.configText;
  for (const auto &[name, contents] : files)
    if (Error error = stage->write(name, contents))
      return error;
  SmallString<128> weights(stage->path());
  llvm::sys::path::append(weights, "model.safetensors");
  if (Error error = writeInPlace(weights, [&](raw_ostream &os) { return writeSafetensors(model, os); }))
    return error;
  return stage->commit();
}

} // namespace kiln
