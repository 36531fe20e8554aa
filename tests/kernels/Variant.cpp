#include "kernels/Variant.h"

#include "support/File.h"

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

Variant::Variant(StringRef folder, StringRef name, DType element, std::map<std::string, std::string> constants)
    : kernel(name), type(element), replaced(std::move(constants)),
      source(cantFail(readFile((folder + "/" + name + ".cu").str()))) {
  replaceValue(source, "using Element = ", elementName(element));
  for (const auto &[constant, value] : replaced)
    replaceValue(source, " " + constant + " = ", value);
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
