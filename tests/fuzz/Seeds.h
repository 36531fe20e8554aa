//===- Seeds.h - inputs to begin fuzzing with -------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Writes files FOLDER/TARGET/NAME, and FOLDER/TARGET.dict with words for libFuzzer to try. Older files in
/// FOLDER/TARGET are removed. Inputs longer than run.py's limit are left out.
class SeedWriter {
public:
  explicit SeedWriter(StringRef folder) : folder(folder.str()) {}

  void add(StringRef target, StringRef name, StringRef contents);
  void addDictionary(StringRef target, const std::set<std::string> &words);

private:
  std::string folder;
  std::set<std::string> begun; ///< folders of targets
};

/// Adds the contents of tests, graphs and pages: IR text, configurations, vocabularies, checkpoints, command lines.
void addSeedsOfFiles(SeedWriter &seeds);

/// Adds GGUF files and llm.c's files, made with the project's writers where it has some.
void addSeedsOfModelFiles(SeedWriter &seeds);

/// A module of a test, well-formed or not.
struct TestedModule {
  std::string name, text;
  std::string passes; ///< the passes of its test, as a comment for the target pipeline; empty: none
};
std::vector<TestedModule> testedModules();

} // namespace kiln
