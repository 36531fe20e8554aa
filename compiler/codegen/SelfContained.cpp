#include "codegen/Generate.h"
#include "templates/TemplateFiles.h"

namespace kiln {

namespace {

/// Expands quoted includes in place, each file once. Where lines of another file begin, a line names that file.
class Expansion {
public:
  explicit Expansion(StringRef root) : section(root) {}

  void add(StringRef file, StringRef text) {
    while (!text.empty()) {
      auto [line, rest] = text.split('\n');
      text = rest;
      if (line.trim() == "#pragma once")
        continue;
      StringRef name = line;
      if (name.consume_front("#include \""))
        include(name.take_until([](char c) { return c == '"'; }));
      else
        addLine(file, line);
    }
  }

  std::string takeText() { return std::move(out); }

private:
  void include(StringRef name) {
    auto file = llvm::find_if(templateFiles(), [&](const EmbeddedFile &f) { return f.name == name; });
    if (file != templateFiles().end() && seen.insert(file->name).second)
      add(file->name, file->text);
  }

  void addLine(StringRef file, StringRef line) {
    if (!line.empty() && section != file) {
      out += ("\n// ---- " + file + " ----\n").str();
      section = file;
    }
    out += (line + "\n").str();
  }

  std::set<StringRef> seen;
  StringRef section;
  std::string out;
};

} // namespace

std::string selfContained(const KernelSource &source) {
  std::string name = source.fileName();
  Expansion expansion(name);
  expansion.add(name, source.text);
  return expansion.takeText();
}

} // namespace kiln
