// kiln-pages FOLDER: writes manual pages and completions of kiln and kiln-opt. The build runs it; it is not installed.
#include "tools/pages/Description.h"

#include "support/files/StagedDirectory.h"
#include "support/process/Process.h"
#include "tools/kiln-opt/Options.h"
#include "tools/kiln/options/Options.h"

#include <CLI/CLI.hpp>

using namespace kiln;

static void addManualPages(const DescribedCommand &command, std::map<std::string, std::string> &files) {
  std::string name = command.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  files["man/" + name + ".1"] = manualPage(command);
  for (const DescribedCommand &sub : command.commands)
    addManualPages(sub, files);
}

static void addProgram(const DescribedCommand &program, std::map<std::string, std::string> &files) {
  addManualPages(program, files);
  files["bash/" + program.name] = bashCompletion(program);
  files["zsh/_" + program.name] = zshCompletion(program);
  files["fish/" + program.name + ".fish"] = fishCompletion(program);
}

int main(int argc, char **argv) {
  prepareProcess();
  if (argc != 2) {
    llvm::errs() << "usage: kiln-pages FOLDER\n";
    return finishProcess(Error::success(), 2);
  }
  CLI::App program, passes;
  Commands commands;
  Options options;
  setUp(program);
  addCommands(program, commands);
  addOptions(passes, options);
  std::map<std::string, std::string> files;
  addProgram(describe(program), files);
  addProgram(describe(passes), files);
  return finishProcess(writeFiles(argv[1], files));
}
