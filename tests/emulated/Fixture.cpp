#include "emulated/Fixture.h"

#include "support/files/File.h"

namespace kiln {

HostKernelCompiler testCompiler(bool checkAccesses) {
  return cantFail(HostKernelCompiler::create({KILN_TEMPLATES, KILN_TEST_CACHE, "", checkAccesses}));
}

std::string kernelText(StringRef name) {
  return cantFail(readFile((Twine(KILN_TEST_KERNELS "/") + name + ".cu").str()));
}

std::string placeIn(StringRef name, StringRef mark) {
  std::string text = kernelText(name);
  size_t at = text.find(("// here: " + mark + "\n").str());
  EXPECT_NE(at, std::string::npos) << mark.str();
  return formatv("{0}.cu:{1}: ", name, StringRef(text).take_front(at).count('\n') + 1);
}

std::string errorIn(StringRef name, StringRef mark, StringRef kernel) {
  return placeIn(name, mark) + ("error: kernel " + kernel + ": block (0,0,0): ").str();
}

/// The names after every `extern "C" __global__ void`.
static std::vector<std::string> kernelNames(StringRef text) {
  std::vector<std::string> names;
  StringRef marker = "extern \"C\" __global__ void ";
  while (text.contains(marker)) {
    text = text.split(marker).second;
    names.push_back(text.take_until([](char c) { return c == '('; }).str());
  }
  return names;
}

const KernelLibrary &kernelLibrary(StringRef name, bool checkAccesses) {
  static std::map<std::pair<std::string, bool>, std::unique_ptr<KernelLibrary>> libraries;
  std::unique_ptr<KernelLibrary> &library = libraries[{name.str(), checkAccesses}];
  if (!library) {
    std::string text = kernelText(name);
    library = cantFail(testCompiler(checkAccesses).compile((name + ".cu").str(), text, kernelNames(text)));
  }
  return *library;
}

std::string printed(Error error) {
  std::string text;
  raw_string_ostream os(text);
  for (const Diagnostic &diagnostic : takeDiagnostics(std::move(error)))
    diagnostic.print(os);
  return text;
}

void EmulatedTest::forEachSchedule(function_ref<void(const LaunchOptions &)> check) {
  for (unsigned threads : {1u, 0u}) {
    check({Schedule::InOrder, 0, false, threads});
    check({Schedule::Reversed, 0, false, threads});
    for (uint64_t seed : {1, 2, 3})
      check({Schedule::Random, seed, false, threads});
  }
}

} // namespace kiln
