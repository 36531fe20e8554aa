//===- Seeds.h - inputs to begin fuzzing with -------------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Writes FOLDER/TARGET/NAME files, and FOLDER/TARGET.dict, words for libFuzzer to try. What was in FOLDER/TARGET goes.
/// What is longer than run.py wants inputs to be is left out.
class SeedWriter {
public:
  explicit SeedWriter(StringRef folder) : folder(folder.str()) {}

  void add(StringRef target, StringRef name, StringRef contents);
  void addDictionary(StringRef target, const std::set<std::string> &words);

private:
  std::string folder;
  std::set<std::string> begun; ///< folders of targets
};

/// What tests, graphs and pages have: IR text, configurations, vocabularies, checkpoints, command lines.
void addSeedsOfFiles(SeedWriter &seeds);

/// A module of a test, well-formed or not.
struct TestedModule {
  std::string name, text;
  std::string passes; ///< that its test runs, as a comment for the target pipeline; empty: none
};
std::vector<TestedModule> testedModules();

} // namespace kiln
