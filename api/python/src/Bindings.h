//===- Bindings.h - between Python and the C library ---------------------------===//
//
// kiln._core wraps the functions of kiln.h one by one; the Python files of kiln/ make the package of it. Every call
// that may take long releases the GIL.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kiln.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <memory>

namespace kiln::python {

namespace nb = nanobind;

/// The library's table. Throws ImportError if the library is too old.
const KilnApi &api();

/// Throws the error as a kiln.Error, and releases it; returns for success. Needs the GIL.
void check(KilnError *error);
/// Throws the kiln.Error of this code.
[[noreturn]] void throwError(int32_t code, const std::string &message);

/// Token ids, [T].
using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
inline KilnTokens tokensOf(const Ids &ids) { return {ids.data(), ids.size()}; }
std::vector<KilnTokens> tokensOf(const std::vector<Ids> &prompts);

/// New arrays, which own their memory. NumPy arrays speak DLPack, too.
using IdArray = nb::ndarray<nb::numpy, int32_t, nb::ndim<1>, nb::c_contig>;
using FloatVector = nb::ndarray<nb::numpy, float, nb::ndim<1>, nb::c_contig>;
using FloatMatrix = nb::ndarray<nb::numpy, float, nb::ndim<2>, nb::c_contig>;
using DoubleVector = nb::ndarray<nb::numpy, double, nb::ndim<1>, nb::c_contig>;
IdArray toArray(std::vector<int32_t> values);
FloatVector toArray(std::vector<float> values);
DoubleVector toArray(std::vector<double> values);
/// [values.size() / cols, cols]
FloatMatrix toMatrix(std::vector<float> values, size_t cols);

/// Text that may be missing, as the C library takes it.
inline const char *textOrNull(const std::optional<std::string> &text) { return text ? text->c_str() : nullptr; }

/// A Python function that C code calls, perhaps on another thread. Its first exception is kept, to be thrown when the
/// call of the library is over.
class Callback {
public:
  explicit Callback(nb::object function) : function(std::move(function)) {}

  explicit operator bool() const { return !function.is_none(); }

  /// Calls it, with the GIL. False: it has thrown, now or earlier, or has returned True, which asks to stop.
  template <class... Arguments> bool call(const Arguments &...arguments) noexcept {
    nb::gil_scoped_acquire gil;
    if (failure)
      return false;
    try {
      nb::object result = function(arguments...);
      return !result.is(nb::bool_(true));
    } catch (...) {
      failure = std::current_exception();
      return false;
    }
  }

  /// Throws what the function has thrown. Needs the GIL.
  void rethrow() const {
    if (failure)
      std::rethrow_exception(failure);
  }

private:
  nb::object function;
  std::exception_ptr failure;
};

/// The two callbacks of compiling and of opening a session.
struct Listeners {
  Callback progress, note;

  /// Sets the callbacks of a structure of options; the listeners must outlive the call.
  template <class Options> void listen(Options &options) {
    options.user = this;
    if (progress)
      options.onProgress = [](void *user, size_t done, size_t all, const char *what) {
        static_cast<Listeners *>(user)->progress.call(done, all, what);
      };
    if (note)
      options.onNote = [](void *user, const char *text) { static_cast<Listeners *>(user)->note.call(text); };
  }

  void rethrow() const {
    progress.rethrow();
    note.rethrow();
  }
};

struct ModelHandle {
  std::shared_ptr<KilnModel> handle;
  KilnModelInfo info = KILN_MODEL_INFO;
};

/// A session and what is known of its rows.
class SessionHandle {
public:
  SessionHandle(const ModelHandle &model, KilnSession *session)
      : handle(session, api().releaseSession), vocabulary(static_cast<size_t>(model.info.vocabularySize)) {}

  /// Runs `work(session)` without the GIL, and throws its error. The session is not released meanwhile, even if another
  /// thread closes it. Throws a kiln.BusyError if another call is running.
  template <class Work> void use(Work work) {
    if (!handle)
      throwError(KilnErrorMisuse, "session: expected an open one, got one that was closed");
    // Also protects the pointers that the library lends until the next call.
    if (isBusy->exchange(true))
      throwError(KilnErrorBusy, "session: expected no other call of it, got one that still runs; open a model for each "
                                "thread, and finish or cancel a stream first");
    KilnError *error;
    {
      Finish finish{isBusy};
      std::shared_ptr<KilnSession> kept = handle;
      nb::gil_scoped_release free;
      std::shared_ptr<KilnSession> own = std::move(kept); // the last one is released without the GIL
      error = work(own.get());
    }
    check(error);
  }

  void close() { handle.reset(); }

  std::shared_ptr<KilnSession> handle;
  size_t vocabulary;
  size_t rows = 0; ///< of prefill

private:
  /// Ends a use, also one that throws.
  struct Finish {
    std::shared_ptr<std::atomic<bool>> busy;
    ~Finish() { *busy = false; }
  };

  std::shared_ptr<std::atomic<bool>> isBusy = std::make_shared<std::atomic<bool>>(false);
};

void bindCompile(nb::module_ &module);
void bindModel(nb::module_ &module);
void bindSession(nb::class_<SessionHandle> &session);
void bindGenerate(nb::module_ &module, nb::class_<SessionHandle> &session);
nb::class_<SessionHandle> declareSession(nb::module_ &module);

} // namespace kiln::python
