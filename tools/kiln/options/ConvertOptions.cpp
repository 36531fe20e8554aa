// The options of kiln import and export. CLI11 is slow to compile and throws: few files include it.
#include "tools/kiln/options/SharedOptions.h"

namespace kiln {

void addImport(CLI::App &app, ImportCommand &command) {
  CLI::App *sub = app.add_subcommand("import", "Show a model in one file, and write it in Hugging Face's form");
  sub->add_option("FILE", command.file, "a GGUF file or llm.c's .bin")->required();
  sub->add_option("-o", command.output, "the directory to write; without it, the model is only shown")
      ->check(checkNotEmpty);
}

void addExport(CLI::App &app, ExportCommand &command) {
  CLI::App *sub = app.add_subcommand("export", "Write a model as a GGUF file or as llm.c's .bin");
  sub->add_option("MODEL", command.model, "a directory with config.json and weights, a GGUF file or llm.c's .bin")
      ->required();
  sub->add_option("--format", command.format, "gguf or llmc")->check(word({"gguf", "llmc"}))->required();
  sub->add_option("-o", command.output, "the file to write")->check(checkNotEmpty)->required();
}

} // namespace kiln
