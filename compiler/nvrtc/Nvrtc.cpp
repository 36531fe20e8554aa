#include "nvrtc/Nvrtc.h"

#include "support/Diagnostic.h"
#include "support/model/TargetName.h"
#include "support/process/Process.h"

#include <array>
#include <csignal>
#include <dlfcn.h>
#include <nvrtc.h>

namespace kiln {

namespace {
/// While an object lives, its thread is in NVRTC. NVRTC crashes if it gets no memory: it aborts, or recurses until the
/// stack overflows.
class InsideNvrtc {
public:
  InsideNvrtc() {
    isInside = true;
    stack_t used = {};
    if (sigaltstack(nullptr, &used) == 0 && (used.ss_flags & SS_DISABLE)) {
      used = {handlerStack.data(), 0, handlerStack.size()};
      sigaltstack(&used, nullptr);
    }
  }
  ~InsideNvrtc() { isInside = false; }
  InsideNvrtc(const InsideNvrtc &) = delete;

  /// From now on, a crash in NVRTC is reported by a message. Other crashes are handled as before.
  static void diagnoseCrashes() {
    llvm::sys::AddSignalHandler([](void *) {}, nullptr); // makes LLVM install its handlers now, not later over these
    struct sigaction action = {};
    action.sa_handler = onCrash;
    action.sa_flags = SA_ONSTACK;
    for (const auto &[i, signal] : llvm::enumerate(signals))
      sigaction(signal, &action, &previous[i]);
  }

private:
  static void onCrash(int signal) {
    if (isInside)
      endProcess(
          "error: NVRTC has crashed: it may need more memory than the machine or its limits (ulimit -v) allow\n");
    for (const auto &[i, known] : llvm::enumerate(signals))
      if (known == signal)
        sigaction(signal, &previous[i], nullptr);
    std::raise(signal); // delivered when this handler returns
  }

  static constexpr std::array signals = {SIGABRT, SIGSEGV};
  static inline std::array<struct sigaction, signals.size()> previous;
  static inline thread_local bool isInside = false;
  alignas(16) static inline thread_local std::array<char, 1 << 16> handlerStack; ///< lives as long as the thread
};
} // namespace

/// The functions that are called, by their names in the library.
struct Nvrtc::Api {
  decltype(&nvrtcVersion) version;
  decltype(&nvrtcGetErrorString) errorString;
  decltype(&nvrtcCreateProgram) createProgram;
  decltype(&nvrtcDestroyProgram) destroyProgram;
  decltype(&nvrtcCompileProgram) compileProgram;
  decltype(&nvrtcGetCUBINSize) cubinSize;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetPTXSize) ptxSize;
  decltype(&nvrtcGetPTX) ptx;
  decltype(&nvrtcGetProgramLogSize) logSize;
  decltype(&nvrtcGetProgramLog) log;
};

template <class Function> static bool bind(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Expected<const Nvrtc *> Nvrtc::get() {
  // The process loads the library once; further threads wait for the first.
  static std::string reason;
  static const Nvrtc *loaded = load(reason);
  if (loaded)
    return loaded;
  return makeError("NVRTC is not available: " + reason + " (looked for in " + KILN_NVRTC_FOLDER +
                   " and the library path); install the CUDA toolkit, or NVIDIA's wheel nvidia-cuda-nvrtc");
}

/// Loads NVRTC's second library. NVRTC opens it by its name alone, which fails if it is not on the library path:
/// NVIDIA's wheels can be anywhere. If it has been loaded from our folder before, NVRTC finds it. A failure shows when
/// NVRTC compiles.
static void loadBuiltins(const std::string &nvrtcVersion) {
  dlopen((KILN_NVRTC_FOLDER "/libnvrtc-builtins.so." + nvrtcVersion).c_str(), RTLD_NOW | RTLD_LOCAL);
}

const Nvrtc *Nvrtc::load(std::string &reason) {
  std::string name = "libnvrtc.so." + std::to_string(KILN_NVRTC_MAJOR), ours = KILN_NVRTC_FOLDER "/" + name;
  void *library = dlopen((llvm::sys::fs::exists(ours) ? ours : name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    reason = dlerror();
    return nullptr;
  }
  static Api api;
  bool isComplete =
      bind(library, "nvrtcVersion", api.version) && bind(library, "nvrtcGetErrorString", api.errorString) &&
      bind(library, "nvrtcCreateProgram", api.createProgram) &&
      bind(library, "nvrtcDestroyProgram", api.destroyProgram) &&
      bind(library, "nvrtcCompileProgram", api.compileProgram) && bind(library, "nvrtcGetCUBINSize", api.cubinSize) &&
      bind(library, "nvrtcGetCUBIN", api.cubin) && bind(library, "nvrtcGetPTXSize", api.ptxSize) &&
      bind(library, "nvrtcGetPTX", api.ptx) && bind(library, "nvrtcGetProgramLogSize", api.logSize) &&
      bind(library, "nvrtcGetProgramLog", api.log);
  if (!isComplete) {
    reason = name + " is too old";
    return nullptr;
  }
  static const Nvrtc nvrtc(api);
  loadBuiltins(nvrtc.version());
  InsideNvrtc::diagnoseCrashes();
  return &nvrtc;
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  api.version(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

std::vector<std::string> nvrtcOptions(StringRef target) {
  return {("--gpu-architecture=" + target).str(), "--std=c++17", "-lineinfo", "--ptxas-options=-v", "--no-cache"};
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The root of all file names given to NVRTC. NVRTC writes them into a cubin's line information, relative ones after
/// the working directory. With this root, which need not exist, a cubin does not depend on the directory in which it is
/// made.
static constexpr StringRef sourceRoot = "/kiln/";

/// Adds the root to the name in each `#include "device/base.cuh"`.
static std::string withRootedIncludes(StringRef source) {
  std::string text;
  while (!source.empty()) {
    size_t end = std::min(source.find('\n'), source.size() - 1) + 1;
    StringRef line = source.take_front(end), rest = line.ltrim(" \t");
    source = source.drop_front(end);
    bool isInclude = rest.consume_front("#") && (rest = rest.ltrim(" \t")).consume_front("include") &&
                     (rest = rest.ltrim(" \t")).consume_front("\"") && !rest.starts_with("/");
    if (isInclude)
      text += (line.drop_back(rest.size()) + sourceRoot + rest).str();
    else
      text += line;
  }
  return text;
}

static std::string withoutRoot(std::string text) {
  for (size_t at; (at = text.find(sourceRoot)) != std::string::npos;)
    text.erase(at, sourceRoot.size());
  return text;
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

/// Reads one of a program's outputs, given the functions for its size and text.
template <class Size, class Get> static std::string fetch(nvrtcProgram program, Size size, Get get) {
  size_t bytes = 0;
  std::string text;
  if (size(program, &bytes) != NVRTC_SUCCESS || bytes == 0)
    return text;
  text.resize(bytes);
  get(program, text.data());
  return text;
}

Expected<CompiledKernel> Nvrtc::compile(StringRef name, StringRef source, StringRef target,
                                        ArrayRef<EmbeddedFile> headers) const {
  // NVRTC takes C strings.
  std::vector<std::string> texts, names;
  for (const EmbeddedFile &header : headers) {
    texts.push_back(withRootedIncludes(header.text));
    names.push_back((sourceRoot + header.name).str());
  }
  std::vector<const char *> textPointers, namePointers;
  for (size_t i = 0; i < texts.size(); ++i) {
    textPointers.push_back(texts[i].c_str());
    namePointers.push_back(names[i].c_str());
  }
  InsideNvrtc inside;
  nvrtcProgram program = nullptr;
  nvrtcResult result =
      api.createProgram(&program, withRootedIncludes(source).c_str(), (sourceRoot + name).str().c_str(),
                        static_cast<int>(texts.size()), textPointers.data(), namePointers.data());
  if (result != NVRTC_SUCCESS)
    return makeError(Twine("NVRTC: ") + api.errorString(result));
  auto destroy = llvm::make_scope_exit([&] { api.destroyProgram(&program); });

  std::vector<const char *> options;
  const std::vector<std::string> optionTexts = nvrtcOptions(target);
  for (const std::string &option : optionTexts)
    options.push_back(option.c_str());
  result = api.compileProgram(program, static_cast<int>(options.size()), options.data());
  std::string log = withoutRoot(fetch(program, api.logSize, api.log));
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n'))
    log.pop_back();
  if (result != NVRTC_SUCCESS)
    return makeFileError(name, Twine("NVRTC for ") + target + ": " + api.errorString(result) + "\n" + log);
  CompiledKernel compiled{fetch(program, api.cubinSize, api.cubin), fetch(program, api.ptxSize, api.ptx),
                          parsePtxasLog(log)};
  while (!compiled.ptx.empty() && compiled.ptx.back() == '\0')
    compiled.ptx.pop_back();
  if (isPtxTarget(target) ? compiled.ptx.empty() : compiled.cubin.empty())
    return makeFileError(name, "NVRTC for " + target + " gave no " + (isPtxTarget(target) ? "PTX" : "cubin"));
  return compiled;
}

/// The number before `unit` in a log like `Used 40 registers, 12 bytes smem`.
static int64_t numberBefore(StringRef log, StringRef unit) {
  // The log also contains the kernel's name, which may contain the unit.
  for (size_t at = log.find(unit); at != StringRef::npos; at = log.find(unit, at + 1)) {
    StringRef before = log.take_front(at);
    int64_t value = 0;
    if (before.consume_back(" ") &&
        !before.take_back(before.size() - before.find_last_not_of("0123456789") - 1).getAsInteger(10, value))
      return value;
  }
  return 0;
}

KernelResources parsePtxasLog(StringRef log) {
  KernelResources use;
  use.registers = numberBefore(log, "registers");
  use.sharedBytes = numberBefore(log, "bytes smem");
  use.stackBytes = numberBefore(log, "bytes stack frame");
  use.spillStores = numberBefore(log, "bytes spill stores");
  use.spillLoads = numberBefore(log, "bytes spill loads");
  return use;
}

} // namespace kiln
