#include "Bindings.h"

namespace kiln::python {

const KilnApi &api() {
  static const KilnApi *const table = kilnGetApi(KILN_API_VERSION);
  if (!table)
    throw nb::import_error("libkiln is older than the package");
  return *table;
}

void throwError(int32_t code, const std::string &message) {
  // Messages may quote bytes of files and paths that are no UTF-8.
  nb::object text = nb::steal(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
  nb::object error = nb::module_::import_("kiln._errors").attr("make_error")(code, text);
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

void check(KilnError *error) {
  if (!error)
    return;
  int32_t code = api().errorCode(error);
  std::string message = api().errorMessage(error);
  api().releaseError(error);
  throwError(code, message);
}

} // namespace kiln::python
