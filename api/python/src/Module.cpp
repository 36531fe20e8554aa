#include "Bindings.h"

NB_MODULE(_core, module) {
  module.doc() = "The C library, function by function. Use the package kiln instead.";
  kiln::python::api();
  nanobind::class_<kiln::python::SessionHandle> session = kiln::python::declareSession(module);
  kiln::python::bindCompile(module);
  kiln::python::bindModel(module);
  kiln::python::bindSession(session);
  kiln::python::bindGenerate(module, session);
}
