#include "Bindings.h"

namespace kiln::python {

using Text = std::optional<std::string>;

static void open(ModelHandle *self, const nb::bytes &path, const Text &device, int64_t batch,
                 const std::optional<nb::bytes> &weights, const std::optional<uint64_t> &randomWeights,
                 const Text &dtype, const Text &matmul, const Text &decode, const Text &strategy, const Text &tuning,
                 int64_t batchInvariant) {
  KilnModelOptions options = KILN_MODEL_OPTIONS;
  options.device = textOrNull(device);
  options.batch = batch;
  options.weights = weights ? weights->c_str() : nullptr;
  options.randomWeights = randomWeights ? &*randomWeights : nullptr;
  options.dtype = textOrNull(dtype);
  options.matmul = textOrNull(matmul);
  options.decode = textOrNull(decode);
  options.strategy = textOrNull(strategy);
  options.tuning = textOrNull(tuning);
  options.batchInvariant = batchInvariant;
  const char *model = path.c_str();
  KilnModel *opened = nullptr;
  KilnError *error;
  {
    nb::gil_scoped_release free;
    error = api().openModel(model, &options, &opened);
  }
  check(error);
  auto *made = new (self) ModelHandle{{opened, api().releaseModel}};
  check(api().modelInfo(opened, &made->info));
}

static IdArray tokenize(const ModelHandle &self, const nb::bytes &text, bool special) {
  // Every token stands for at least one byte, so that one call is enough.
  std::vector<int32_t> ids(text.size());
  size_t count = 0;
  const char *data = text.c_str();
  KilnError *error;
  {
    nb::gil_scoped_release free;
    error = api().tokenize(self.handle.get(), data, ids.size(), special, ids.data(), ids.size(), &count);
  }
  check(error);
  ids.resize(count);
  return toArray(std::move(ids));
}

static nb::bytes detokenize(const ModelHandle &self, const Ids &ids) {
  size_t length = 0;
  check(api().detokenize(self.handle.get(), ids.data(), ids.size(), nullptr, 0, &length));
  std::string text(length, 0);
  check(api().detokenize(self.handle.get(), ids.data(), ids.size(), text.data(), length, &length));
  return nb::bytes(text.data(), text.size());
}

void bindModel(nb::module_ &module) {
  nb::class_<ModelHandle>(module, "Model")
      .def("__init__", open, nb::arg("path"), nb::kw_only(), nb::arg("device").none(), nb::arg("batch"),
           nb::arg("weights").none(), nb::arg("random_weights").none(), nb::arg("dtype").none(),
           nb::arg("matmul").none(), nb::arg("decode").none(), nb::arg("strategy").none(), nb::arg("tuning").none(),
           nb::arg("batch_invariant"))
      .def_prop_ro("name", [](const ModelHandle &self) { return self.info.name; })
      .def_prop_ro("device", [](const ModelHandle &self) { return self.info.device; })
      .def_prop_ro("vocabulary_size", [](const ModelHandle &self) { return self.info.vocabularySize; })
      .def_prop_ro("context_length", [](const ModelHandle &self) { return self.info.contextLength; })
      .def_prop_ro("layers", [](const ModelHandle &self) { return self.info.layers; })
      .def_prop_ro("batch", [](const ModelHandle &self) { return self.info.batch; })
      .def_prop_ro("token_count", [](const ModelHandle &self) { return self.info.tokenCount; })
      .def_prop_ro("begin_token", [](const ModelHandle &self) { return self.info.beginToken; })
      .def_prop_ro("eos_tokens",
                   [](const ModelHandle &self) {
                     return std::vector<int32_t>(self.info.eosTokens, self.info.eosTokens + self.info.eosTokenCount);
                   })
      .def("tokenize", tokenize, nb::arg("text"), nb::arg("special"))
      .def("detokenize", detokenize, nb::arg("tokens"));
}

} // namespace kiln::python
