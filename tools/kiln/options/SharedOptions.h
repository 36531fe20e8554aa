//===- SharedOptions.h - options that several commands have ---------------===//
//
// For the files that add options. It includes CLI11, which is slow to compile.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/kiln/options/OptionChecks.h"
#include "tools/kiln/options/Options.h"

#include "support/process/Process.h"

#include <CLI/CLI.hpp>

namespace kiln {

// What MODEL may be.
inline const std::string plainModel = "a .toml, a directory with config.json, a GGUF file or llm.c's .bin";
inline const std::string planOrModel = "a plan, " + plainModel;

/// For options whose values are checked elsewhere.
inline std::string allowAll(const std::string &) { return ""; }

/// An option that may be repeated. It takes one value each time, so that MODEL may follow.
template <class T> CLI::Option *addEach(CLI::App &sub, const std::string &name, std::vector<T> &values,
                                        const std::string &help) {
  return sub.add_option(name, values, help)->take_all()->allow_extra_args(false);
}

template <class T> void readItem(const std::string &text, T &value) { CLI::detail::lexical_cast(text, value); }
inline void readItem(const std::string &text, Entry &entry) { entry = *findEntry(text); }

template <class T> std::string itemText(const T &value) { return formatv("{0}", value).str(); }
inline std::string itemText(Entry entry) { return entryName(entry).str(); }

/// An option of values separated by commas, each accepted by `check`. CLI11's own delimiter would skip empty values.
template <class T> CLI::Option *addList(CLI::App &sub, const std::string &name, std::vector<T> &values,
                                        const OptionCheck &check, const std::string &help) {
  auto take = [name, &values, check](const std::string &text) {
    values.clear();
    SmallVector<StringRef> items;
    StringRef(text).split(items, ',');
    for (StringRef item : items) {
      if (std::string wrong = check(item.str()); !wrong.empty())
        throw CLI::ValidationError(name, wrong);
      readItem(item.str(), values.emplace_back());
    }
  };
  std::string defaults = llvm::join(llvm::map_range(values, [](const T &value) { return itemText(value); }), ",");
  return sub.add_option_function<std::string>(name, take, help)->default_str(defaults);
}

/// The name of a validator that says which words completions offer (tools/pages).
std::string wordsName(const std::vector<std::string> &words);

/// A check for one of some words, which completions offer.
CLI::Validator word(const std::vector<std::string> &words);

/// A list of some words, which completions offer.
template <class T> CLI::Option *addList(CLI::App &sub, const std::string &name, std::vector<T> &values,
                                        const std::vector<std::string> &words, const std::string &help) {
  return addList(sub, name, values, oneOf(words), help)->check(allowAll, "", wordsName(words));
}

/// An option that prints a list and ends the program. As with --help, other arguments are not checked.
void addListing(CLI::App &sub, const char *name, const char *summary, void (*list)(raw_ostream &os));

/// The names of the targets of graphs/targets/.
std::vector<std::string> targetNames();

void addDType(CLI::App &sub, std::optional<std::string> &dtype);     ///< --dtype
void addBatchInvariant(CLI::App &sub, std::optional<int64_t> &rows); ///< --batch-invariant
void addRanks(CLI::App &sub, std::optional<int64_t> &ranks);         ///< --ranks
void addProcesses(CLI::App &sub, bool &processes);                   ///< --processes
void addPipeline(CLI::App &sub, PipelineChoices &pipeline);          ///< all choices of the pipeline
void addTarget(CLI::App &sub, std::string &target);                  ///< --target
void addDevice(CLI::App &sub, std::string &device);                  ///< --device
void addKernelDevice(CLI::App &sub, std::string &device);            ///< --device, for a command that needs kernels
void addDevices(CLI::App &sub, std::string &devices);                ///< --device, one or several
void addKernelDevices(CLI::App &sub, std::string &devices);          ///< likewise, for a command that needs kernels
CLI::Option *addTrace(CLI::App &sub, std::string &path);             ///< --trace
void addEvalForm(CLI::App &sub, std::optional<EvalForm> &form);      ///< --format
void addWeights(CLI::App &sub, WeightOptions &weights);              ///< --weights, --random-weights

} // namespace kiln
