#include "Bindings.h"

namespace kiln::python {

static void open(SessionHandle *self, const ModelHandle &model, bool canScore, nb::object onProgress,
                 nb::object onNote) {
  KilnSessionOptions options = KILN_SESSION_OPTIONS;
  options.canScore = canScore;
  Listeners listeners{Callback(std::move(onProgress)), Callback(std::move(onNote))};
  listeners.listen(options);
  KilnSession *opened = nullptr;
  KilnError *error;
  {
    nb::gil_scoped_release free;
    error = api().openSession(model.handle.get(), &options, &opened);
  }
  check(error);
  std::unique_ptr<KilnSession, decltype(api().releaseSession)> owner(opened, api().releaseSession);
  listeners.rethrow();
  new (self) SessionHandle(model, owner.release());
}

/// Copies the logits of all rows behind `all`.
static KilnError *copyLogits(KilnSession *session, size_t rows, size_t vocabulary, std::vector<float> &all) {
  for (size_t row = 0; row < rows; ++row) {
    const float *logits = nullptr;
    if (KilnError *error = api().logits(session, row, &logits))
      return error;
    all.insert(all.end(), logits, logits + vocabulary);
  }
  return nullptr;
}

static FloatMatrix prefill(SessionHandle &self, const std::vector<Ids> &prompts) {
  std::vector<KilnTokens> tokens = tokensOf(prompts);
  std::vector<float> all;
  self.use([&](KilnSession *session) {
    KilnError *error = api().prefill(session, tokens.data(), tokens.size());
    return error ? error : copyLogits(session, tokens.size(), self.vocabulary, all);
  });
  self.rows = tokens.size();
  return toMatrix(std::move(all), self.vocabulary);
}

static FloatMatrix decode(SessionHandle &self, const Ids &tokens) {
  std::vector<float> all;
  self.use([&](KilnSession *session) {
    KilnError *error = api().decode(session, tokens.data(), tokens.size());
    return error ? error : copyLogits(session, tokens.size(), self.vocabulary, all);
  });
  return toMatrix(std::move(all), self.vocabulary);
}

static DoubleVector score(SessionHandle &self, const Ids &tokens) {
  std::vector<double> all(tokens.size() < 2 ? 0 : tokens.size() - 1);
  self.use([&](KilnSession *session) { return api().score(session, tokens.data(), tokens.size(), all.data()); });
  return toArray(std::move(all));
}

nb::class_<SessionHandle> declareSession(nb::module_ &module) { return nb::class_<SessionHandle>(module, "Session"); }

void bindSession(nb::class_<SessionHandle> &session) {
  session
      .def("__init__", open, nb::arg("model"), nb::kw_only(), nb::arg("can_score"), nb::arg("on_progress").none(),
           nb::arg("on_note").none())
      .def("prefill", prefill, nb::arg("prompts"))
      .def("decode", decode, nb::arg("tokens"))
      .def("score", score, nb::arg("tokens"))
      .def("close", &SessionHandle::close);
}

} // namespace kiln::python
