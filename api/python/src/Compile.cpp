#include "Bindings.h"

namespace kiln::python {

using Text = std::optional<std::string>;

/// The bytes of a text of the library, which is released.
static nb::str take(KilnText *text) {
  std::unique_ptr<KilnText, decltype(api().releaseText)> owner(text, api().releaseText);
  size_t length = 0;
  const char *data = api().textData(text, &length);
  return nb::str(data, length);
}

static void compile(const nb::bytes &model, const nb::bytes &directory, const std::vector<std::string> &targets,
                    int64_t maxBatch, const Text &dtype, const Text &matmul, const Text &decode, const Text &strategy,
                    const Text &tuning, const Text &passes, int64_t draftTokens, int64_t batchInvariant, bool cubins,
                    bool cache, nb::object onProgress, nb::object onNote) {
  std::vector<const char *> names;
  for (const std::string &target : targets)
    names.push_back(target.c_str());
  KilnCompileOptions options = KILN_COMPILE_OPTIONS;
  options.targets = names.empty() ? nullptr : names.data();
  options.targetCount = names.size();
  options.maxBatch = maxBatch;
  options.dtype = textOrNull(dtype);
  options.matmul = textOrNull(matmul);
  options.decode = textOrNull(decode);
  options.strategy = textOrNull(strategy);
  options.tuning = textOrNull(tuning);
  options.passes = textOrNull(passes);
  options.draftTokens = draftTokens;
  options.batchInvariant = batchInvariant;
  options.withoutCubins = !cubins;
  options.withoutCache = !cache;
  Listeners listeners{Callback(std::move(onProgress)), Callback(std::move(onNote))};
  listeners.listen(options);
  const char *path = model.c_str(), *output = directory.c_str();
  KilnError *error;
  {
    nb::gil_scoped_release free;
    error = api().compile(path, output, &options);
  }
  check(error);
  listeners.rethrow();
}

static nb::str describePlan(const nb::bytes &directory, int64_t batch, int64_t length,
                            const std::optional<nb::bytes> &profile) {
  KilnPlanOptions options = KILN_PLAN_OPTIONS;
  options.batch = batch;
  options.length = length;
  options.profile = profile ? profile->c_str() : nullptr;
  const char *path = directory.c_str();
  KilnText *json = nullptr;
  KilnError *error;
  {
    nb::gil_scoped_release free;
    error = api().describePlan(path, &options, &json);
  }
  check(error);
  return take(json);
}

static nb::str describeIr(const std::string &name, const nb::bytes &text) {
  const char *data = text.c_str();
  size_t length = text.size();
  KilnText *json = nullptr;
  KilnError *error;
  {
    nb::gil_scoped_release free;
    error = api().describeIr(name.c_str(), data, length, &json);
  }
  check(error);
  return take(json);
}

void bindCompile(nb::module_ &module) {
  module.def("library_version", [] { return api().libraryVersion(); }, "The version of the library, like 0.1.0.");
  module.def("compile", compile, nb::arg("model"), nb::arg("directory"), nb::kw_only(), nb::arg("targets"),
             nb::arg("max_batch"), nb::arg("dtype").none(), nb::arg("matmul").none(), nb::arg("decode").none(),
             nb::arg("strategy").none(), nb::arg("tuning").none(), nb::arg("passes").none(), nb::arg("draft_tokens"),
             nb::arg("batch_invariant"), nb::arg("cubins"), nb::arg("cache"), nb::arg("on_progress").none(),
             nb::arg("on_note").none());
  module.def("describe_plan", describePlan, nb::arg("directory"), nb::arg("batch"), nb::arg("length"),
             nb::arg("profile").none(), "A plan as JSON.");
  module.def("describe_ir", describeIr, nb::arg("name"), nb::arg("text"), "The IR of a module as JSON.");
}

} // namespace kiln::python
