#include "runtime/device/emulated/compile/HostKernelCompiler.h"
#include "support/Diagnostic.h"

#include <dlfcn.h>
#include <link.h>

namespace kiln {

/// The function `name` of a library, as a pointer of the given type; null if it does not exist.
template <class Function> static Function *function(void *handle, const std::string &name) {
  return reinterpret_cast<Function *>(dlsym(handle, name.c_str()));
}

Expected<std::unique_ptr<KernelLibrary>> KernelLibrary::open(StringRef library, const EmulatedKernel &prototype,
                                                             ArrayRef<std::string> kernels) {
  void *handle = dlopen(library.str().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return makeFileError(library, Twine("cannot load: ") + dlerror());
  std::unique_ptr<KernelLibrary> result(new KernelLibrary(handle));
  auto *current = function<EmulatedThread **()>(handle, "kiln_emulated_current");
  for (const std::string &name : kernels) {
    auto *call = function<void(void **)>(handle, "kiln_emulate_" + name);
    auto *parameters = function<const u64 *()>(handle, "kiln_parameters_" + name);
    if (!current || !call || !parameters)
      return makeFileError(library, "expected kernel " + name + ", which is not in it; delete the file");
    EmulatedKernel &kernel = result->kernels[name] = prototype;
    kernel.name = name;
    for (const u64 *bytes = parameters(); *bytes != 0; ++bytes)
      kernel.parameterBytes.push_back(static_cast<int64_t>(*bytes));
    kernel.call = call;
    kernel.current = current;
  }
  return result;
}

KernelLibrary::~KernelLibrary() { dlclose(handle); }

MutableArrayRef<char> KernelLibrary::constant(StringRef name) const {
  void *address = dlsym(handle, name.str().c_str());
  Dl_info info;
  const ElfW(Sym) *symbol = nullptr;
  // dlsym also searches the libraries that this one depends on: the symbol table tells whether the constant is its own.
  bool isOwn =
      address &&
      dladdr1(address, &info, const_cast<void **>(reinterpret_cast<const void **>(&symbol)), RTLD_DL_SYMENT) != 0 &&
      symbol && name == info.dli_sname && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT;
  return isOwn ? MutableArrayRef<char>(static_cast<char *>(address), symbol->st_size) : MutableArrayRef<char>();
}

const EmulatedKernel &KernelLibrary::kernel(StringRef name) const {
  auto found = kernels.find(name);
  assert(found != kernels.end() && "expected one of the kernels that were compiled");
  return found->second;
}

} // namespace kiln
