//===- Seeds.h - inputs to begin fuzzing with -------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Writes FOLDER/TARGET/NAME files, and FOLDER/TARGET.dict, words for libFuzzer to try. What was in FOLDER/TARGET goes.
class SeedWriter {
public:
  explicit SeedWriter(StringRef folder) : folder(folder.str()) {}

  void add(StringRef target, StringRef name, StringRef contents);
  void addDictionary(StringRef target, const std::set<std::string> &words);

private:
  std::string folder;
  std::set<std::string> begun; ///< folders of targets
};

/// What tests, graphs and pages have: pieces of IR text, configurations, vocabularies, command lines.
void addSeedsOfFiles(SeedWriter &seeds);

/// The pieces of a text between lines of `// -----`.
std::vector<std::string> piecesOf(StringRef text);

/// Every file below a folder of the source tree whose name ends so, in order.
std::vector<std::string> sourceFiles(StringRef folder, StringRef ending);

} // namespace kiln
