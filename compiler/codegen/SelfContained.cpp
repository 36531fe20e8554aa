#include "codegen/Generate.h"
#include "templates/TemplateFiles.h"

namespace kiln {

/// Appends a text with its quoted includes in their places, each file once.
static void expand(StringRef text, std::set<StringRef> &seen, std::string &out) {
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    StringRef name = line;
    if (name.trim() == "#pragma once")
      continue;
    if (!name.consume_front("#include \"")) {
      out += (line + "\n").str();
      continue;
    }
    name = name.take_until([](char c) { return c == '"'; });
    auto file = llvm::find_if(templateFiles(), [&](const EmbeddedFile &f) { return f.name == name; });
    if (file == templateFiles().end() || !seen.insert(file->name).second)
      continue;
    out += ("\n// ---- " + name + " ----\n").str();
    expand(file->text, seen, out);
  }
}

std::string selfContained(const KernelSource &source) {
  std::set<StringRef> seen;
  std::string out;
  expand(source.text, seen, out);
  return out;
}

} // namespace kiln
