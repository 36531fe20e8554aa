//===- ConvertedModel.h - a model to be written in another format -----------===//
#pragma once

#include "formats/ModelFile.h"
#include "frontend/ModelConfig.h"
#include "runtime/text/Vocabulary.h"
#include "runtime/weights/Checkpoint.h"

namespace kiln {

/// A model with its weights, which have been checked against its configuration.
struct ConvertedModel {
  /// A tensor under its name in a Hugging Face checkpoint, and the type that it has, or had before it was exported.
  struct Tensor {
    std::string name;
    TensorShape shape;
    StoredType stored; ///< in the file
    DType dtype;       ///< to be written
  };

  std::string path;
  std::shared_ptr<const ModelFile> file; ///< null for a directory
  std::string configText;                ///< of config.json
  std::unique_ptr<SourceManager> sources;
  ModelConfig config;
  std::unique_ptr<Checkpoint> checkpoint;
  std::vector<Tensor> tensors; ///< in the order of the model
  std::optional<Vocabulary> vocabulary;
};

/// Opens a directory of Hugging Face's form or a model in one file. Error: another MODEL; as of readModelConfig,
/// Checkpoint::open, Checkpoint::expectModel and loadVocabulary.
Expected<ConvertedModel> openForConversion(StringRef path);

/// Writes the elements of a tensor, row-major, converted to `dtype`; `transposes`: those of the transposed matrix.
/// Error: as of Checkpoint::tensor.
Error writeTensor(raw_ostream &os, const ConvertedModel &model, const ConvertedModel::Tensor &tensor, DType dtype,
                  bool transposes);

/// The token that ends texts: the first of the configuration, else the vocabulary's.
std::optional<int64_t> endOfText(const ConvertedModel &model);

} // namespace kiln
