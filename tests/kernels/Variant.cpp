#include "kernels/Variant.h"

#include "kernels/TestKernels.h"

namespace kiln {

/// The value behind `marker`, up to a comma or semicolon.
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

/// A file that this program carries.
static std::string testKernel(StringRef name) {
  for (const EmbeddedFile &file : testKernels())
    if (file.name == name)
      return file.text.str();
  llvm::report_fatal_error("no kernel " + name);
}

Variant::Variant(StringRef folder, StringRef name, DType element, std::map<std::string, std::string> constants)
    : folder(folder), kernel(name), type(element), replaced(std::move(constants)),
      source(testKernel((folder + "/" + name + ".cu").str())) {
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
