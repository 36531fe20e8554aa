#include "runtime/device/emulated/compile/HostKernelCompiler.h"

#include "runtime/device/emulated/compile/Program.h"
#include "support/Diagnostic.h"
#include "support/files/CacheEntry.h"
#include "support/files/File.h"
#include "support/files/Leftovers.h"

namespace kiln {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

/// With -ffp-contract=off, operations round as the source says, with every compiler. With -fvisibility=hidden,
/// libraries share nothing, not even the inline variables of templates/device/.
static std::vector<std::string> compilerFlags() {
  std::vector<std::string> flags = {"-std=c++20",
                                    "-O1",
                                    "-g",
                                    "-fPIC",
                                    "-shared",
                                    "-fvisibility=hidden",
                                    "-w",
                                    "-x",
                                    "c++",
                                    "-fno-math-errno",
                                    "-fno-strict-aliasing",
                                    "-ffp-contract=off"};
  // The flags of the program itself: the oldest CPU to support, sanitizers.
  SmallVector<StringRef, 4> inherited;
  StringRef(KILN_HOST_FLAGS).split(inherited, ' ', -1, /*KeepEmpty=*/false);
  for (StringRef flag : inherited)
    flags.push_back(flag.str());
  return flags;
}

/// Flags that make the compiler call emulated_entry.cuh's functions before every access to memory. In a program with
/// AddressSanitizer they replace its own checks, which know allocations but not tensors; the other sanitizers stay. A
/// check takes its source line from the return address, so calls at the end of a function must not become jumps. Lines
/// are all that errors show of the debug information; variables, for a debugger, take a fifth of the compiler's time.
static std::vector<std::string> checkingFlags(StringRef compilerVersion) {
  std::vector<std::string> flags = {"-g1",
                                    "-DKILN_EMULATED_CHECKED",
                                    "-fno-sanitize=address",
                                    "-fsanitize=kernel-address",
                                    "-fsanitize-recover=kernel-address",
                                    "-fno-optimize-sibling-calls"};
  bool isClang = compilerVersion.contains("clang");
  for (StringRef parameter : {"asan-instrumentation-with-call-threshold=0", "asan-stack=0", "asan-globals=0"}) {
    flags.push_back(isClang ? "-mllvm" : "--param");
    flags.push_back((isClang ? "-" : "") + parameter.str());
  }
  return flags;
}

/// The full path of the compiler to use.
static Expected<std::string> findCompiler(const std::string &wanted) {
  std::vector<std::string> candidates = {wanted};
  if (wanted.empty()) {
    std::optional<std::string> fromEnvironment = llvm::sys::Process::GetEnv("CXX");
    candidates = {KILN_HOST_COMPILER, "c++", "g++", "clang++"};
    if (fromEnvironment && !fromEnvironment->empty())
      candidates = {*fromEnvironment};
  }
  for (const std::string &candidate : candidates)
    if (!candidate.empty())
      if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(candidate))
        return *found;
  std::string tried;
  for (const std::string &candidate : candidates)
    tried += (tried.empty() || candidate.empty() ? "" : ", ") + candidate;
  return makeError("expected a C++ compiler to run kernels without a GPU, found none (tried " + tried +
                   "; set CXX to one)");
}

/// The bytes of every template with its path, in the order of the paths.
static Expected<std::string> readTemplates(StringRef directory) {
  std::map<std::string, std::string> files;
  std::error_code failure;
  for (fs::recursive_directory_iterator file(directory, failure), end; file != end && !failure;
       file.increment(failure)) {
    if (fs::is_directory(file->path()))
      continue;
    Expected<std::string> text = readFile(file->path());
    if (!text)
      return text.takeError();
    files[file->path()] = std::move(*text);
  }
  if (failure)
    return makeFileError(directory, "cannot read: " + failure.message());
  std::string all;
  for (const auto &[name, text] : files)
    all += formatv("{0} {1}\n", name, text.size()).str() + text;
  return all;
}

Expected<HostKernelCompiler> HostKernelCompiler::create(Options options) {
  HostKernelCompiler result;
  // Debug information and errors contain these paths, so they are absolute.
  SmallString<128> templatesPath(options.templates), cachePath(options.cache);
  for (SmallString<128> *path : {&templatesPath, &cachePath})
    if (std::error_code failure = fs::make_absolute(*path))
      return makeFileError(*path, "expected a directory, got: " + failure.message());
  result.templates = templatesPath.str().str();
  result.cache = cachePath.str().str();
  sweepLeftoversIn(result.cache);
  result.flags = compilerFlags();
  Expected<std::string> compiler = findCompiler(options.compiler);
  if (!compiler)
    return compiler.takeError();
  result.compiler = std::move(*compiler);

  Expected<Finished> version = runProgram(result.compiler, {"--version"});
  if (!version)
    return version.takeError();
  if (version->status != 0)
    return makeFileError(result.compiler, "expected a C++ compiler, but --version fails: " + version->output);
  if (options.checkAccesses)
    llvm::append_range(result.flags, checkingFlags(version->output));
  Expected<std::string> texts = readTemplates(result.templates);
  if (!texts)
    return texts.takeError();
  result.environment =
      sha256Hex(result.compiler + "\n" + version->output + "\n" + llvm::join(result.flags, " ") + "\n" + *texts);
  return result;
}

/// A line without its trailing `//` comment.
static StringRef withoutComment(StringRef line) {
  bool isQuoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\')
      ++i;
    else if (line[i] == '"')
      isQuoted = !isQuoted;
    else if (!isQuoted && line.substr(i).starts_with("//"))
      return line.take_front(i).rtrim();
  }
  return line;
}

/// The source, followed by the functions that the emulator calls. Comments are removed: they state a kernel's origin in
/// the model, and without them equal kernels of several models are compiled once. Line numbers stay the same.
static std::string wrapSource(StringRef source, ArrayRef<std::string> kernels) {
  std::string text;
  raw_string_ostream os(text);
  SmallVector<StringRef, 128> lines;
  source.split(lines, '\n');
  for (StringRef line : lines)
    os << withoutComment(line) << '\n';
  os << "#line 1 \"emulated entries\"\n#include \"device/emulated_entry.cuh\"\nusing namespace kiln;\n";
  os << "KILN_EMULATED_EXPORT EmulatedThread **kiln_emulated_current() { return &emulatedThread; }\n";
  for (const std::string &kernel : kernels)
    os << "KILN_EMULATED_EXPORT void kiln_emulate_" << kernel << "(void **args) { emulatedCall(" << kernel
       << ", args); }\nKILN_EMULATED_EXPORT const u64 *kiln_parameters_" << kernel << "() { return emulatedParameters("
       << kernel << "); }\n";
  return text;
}

/// Marks the lines of a source that come from templates/device/. A source that contains the templates has a line `//
/// ---- FILE ----` from kiln dump before each file.
static std::vector<bool> linesOfPrimitives(StringRef source) {
  std::vector<bool> result;
  bool isPrimitive = false;
  while (!source.empty()) {
    auto [line, rest] = source.split('\n');
    source = rest;
    if (line.consume_front("// ---- "))
      isPrimitive = line.starts_with("device/");
    result.push_back(isPrimitive);
  }
  return result;
}

static std::string replaceAll(std::string text, StringRef from, StringRef to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

HostKernelCompiler::Entry HostKernelCompiler::entryOf(StringRef sourceName, StringRef source,
                                                      ArrayRef<std::string> kernels) const {
  Entry entry;
  entry.text = wrapSource(source, kernels);
  // The compiled copy has the source's name, since debuggers and sanitizers show it.
  StringRef fileName = path::filename(sourceName);
  entry.key = sha256Hex(environment + "\n" + fileName.str() + "\n" + entry.text);
  entry.directory = cache + "/" + entry.key;
  entry.library = (entry.directory + "/" + path::stem(fileName) + ".so").str();
  entry.prototype.source = sourceName.str();
  entry.prototype.compiledSource = (entry.directory + "/" + fileName).str();
  entry.prototype.isPrimitive = linesOfPrimitives(source);
  return entry;
}

Error HostKernelCompiler::runCompiler(const Entry &entry, StringRef stage, StringRef library) const {
  const std::string &source = entry.prototype.source, &compiledSource = entry.prototype.compiledSource;
  std::vector<std::string> arguments = flags;
  arguments.insert(arguments.end(), {"-I", templates, "-o", library.str(), compiledSource});
  Expected<Finished> finished = runProgram(compiler, arguments, /*temporaries=*/stage);
  if (!finished)
    return finished.takeError();
  if (finished->status != 0)
    return makeFileError(source, "expected CUDA that " + compiler + " accepts for the CPU, got\n" +
                                     StringRef(replaceAll(finished->output, compiledSource, source)).rtrim());
  return Error::success();
}

Error HostKernelCompiler::build(const Entry &entry) const {
  if (std::error_code failure = fs::create_directories(entry.directory))
    return makeFileError(cache, "cannot write: " + failure.message());
  // Left by a process that was killed while it did the same.
  sweepLeftoversIn(entry.directory);
  if (Error error = writeFile(entry.prototype.compiledSource, entry.text))
    return error;
  // The compiler's own temporary files go there too.
  Expected<Temporary> stage = Temporary::create(entry.directory, Temporary::Kind::Directory);
  if (!stage)
    return stage.takeError();
  std::string library = (stage->path() + "/library").str();
  if (Error error = runCompiler(entry, stage->path(), library))
    return error;
  Expected<std::string> bytes = readFile(library);
  return bytes ? writeCacheEntry(entry.library, entry.key, *bytes) : bytes.takeError();
}

Expected<std::unique_ptr<KernelLibrary>> HostKernelCompiler::findCompiled(StringRef sourceName, StringRef source,
                                                                          ArrayRef<std::string> kernels) const {
  Entry entry = entryOf(sourceName, source, kernels);
  if (!readCacheEntry(entry.library, entry.key))
    return nullptr;
  return KernelLibrary::open(entry.library, entry.prototype, kernels);
}

Expected<std::unique_ptr<KernelLibrary>> HostKernelCompiler::compile(StringRef sourceName, StringRef source,
                                                                     ArrayRef<std::string> kernels) const {
  Entry entry = entryOf(sourceName, source, kernels);
  if (!readCacheEntry(entry.library, entry.key))
    if (Error error = build(entry))
      return error;
  return KernelLibrary::open(entry.library, entry.prototype, kernels);
}

} // namespace kiln
