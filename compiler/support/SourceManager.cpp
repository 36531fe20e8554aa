#include "support/SourceManager.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"

namespace kiln {

StringRef SourceFile::line(unsigned number) const {
  if (!text || number == 0)
    return {};
  StringRef rest = *text;
  for (unsigned i = 1; i < number; ++i) {
    size_t newline = rest.find('\n');
    if (newline == StringRef::npos)
      return {};
    rest = rest.drop_front(newline + 1);
  }
  StringRef found = rest.take_until([](char c) { return c == '\n'; });
  found.consume_back("\r");
  return found;
}

Expected<const SourceFile *> SourceManager::open(StringRef path) {
  Expected<std::string> text = readFile(path);
  if (!text)
    return text.takeError();
  return add(path, std::move(*text));
}

const SourceFile *SourceManager::add(StringRef name, std::string text) {
  files.push_back(std::make_unique<SourceFile>(SourceFile{name.str(), std::move(text)}));
  return files.back().get();
}

const SourceFile *SourceManager::reference(StringRef name) {
  for (const auto &file : files)
    if (file->name == name)
      return file.get();
  files.push_back(std::make_unique<SourceFile>(SourceFile{name.str(), std::nullopt}));
  return files.back().get();
}

Location locate(const SourceFile *file, size_t offset) {
  assert(file && file->text && "no text to locate in");
  StringRef before = StringRef(*file->text).take_front(offset);
  size_t lastNewline = before.rfind('\n');
  size_t column = lastNewline == StringRef::npos ? before.size() : before.size() - lastNewline - 1;
  return {file, static_cast<unsigned>(before.count('\n') + 1), static_cast<unsigned>(column + 1)};
}

} // namespace kiln
