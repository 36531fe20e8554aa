#include "kernels/Variant.h"

#include "kernels/TestKernels.h"

namespace kiln {

/// The value after `marker`, up to a comma or semicolon.
static StringRef findValue(StringRef source, StringRef marker) {
  auto [before, after] = source.split(marker);
  if (before.size() == source.size())
    llvm::report_fatal_error("the kernel has no '" + marker + "'");
  return after.take_front(after.find_first_of(",;"));
}

static void replaceValue(std::string &source, StringRef marker, StringRef value) {
  StringRef old = findValue(source, marker);
  source.replace(old.data() - source.data(), old.size(), value.str());
}

static StringRef elementName(DType type) { return type == DType::F32 ? "float" : dtypeName(type); }

/// A file that is embedded in this program.
static StringRef testFile(const Twine &name) {
  std::string wanted = name.str();
  for (const EmbeddedFile &file : testKernels())
    if (file.name == wanted)
      return file.text;
  llvm::report_fatal_error("no file " + name);
}

/// A kernel in which includes of shared functors are replaced by their text, so that compilers see one file.
static std::string testKernel(const Twine &name) {
  std::string text;
  for (StringRef rest = testFile(name); !rest.empty();) {
    StringRef line;
    std::tie(line, rest) = rest.split('\n');
    StringRef shared = line;
    if (shared.consume_front("#include \"functors/"))
      text += testFile("functors/" + shared.drop_back());
    else
      text += (line + "\n").str();
  }
  return text;
}

Variant::Variant(StringRef folder, StringRef name, DType element, std::map<std::string, std::string> constants)
    : folder(folder), kernel(name), type(element), replaced(std::move(constants)),
      source(testKernel(folder + "/" + name + ".cu")) {
  replaceValue(source, "using Element = ", elementName(element));
  for (const auto &[constant, value] : replaced)
    replaceValue(source, " " + constant + " = ", value);
}

Variant Variant::with(const std::map<std::string, std::string> &constants) const {
  std::map<std::string, std::string> all = constants;
  all.insert(replaced.begin(), replaced.end());
  return Variant(folder, kernel, type, std::move(all));
}

int Variant::operator[](StringRef constant) const {
  StringRef value = findValue(source, (" " + constant + " = ").str());
  if (value == "true" || value == "false")
    return value == "true";
  int number;
  if (value.getAsInteger(10, number))
    llvm::report_fatal_error("the kernel's " + constant + " is no number");
  return number;
}

std::string Variant::label() const {
  std::string text = kernel + "_" + dtypeName(type).str();
  for (const auto &[constant, value] : replaced)
    text += "_" + constant.substr(1) + value;
  return text;
}

} // namespace kiln
