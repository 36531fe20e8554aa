#include "tools/kiln/options/SharedOptions.h"

#include "kernels/targets/Target.h"
#include "strategies/Strategy.h"

namespace kiln {

static std::vector<std::string> strings(ArrayRef<StringRef> words) { return {words.begin(), words.end()}; }

void addDType(CLI::App &sub, std::optional<std::string> &dtype) {
  std::vector<std::string> words = strings(dtypeWords());
  words.insert(words.end(), {"fp32", "fp16"});
  sub.add_option_function<std::string>(
         "--dtype",
         [&dtype](const std::string &name) { dtype = StringRef(name).starts_with("fp") ? "f" + name.substr(2) : name; },
         "type of weights, activations and cache: f32, f16, bf16, or tf32, f32 whose products of prompts tensor cores "
         "round")
      ->check(word(words))
      ->default_str(PipelineOptions().dtype);
}

static void addMatmul(CLI::App &sub, std::optional<std::string> &matmul) {
  sub.add_option("--matmul", matmul,
                 "what runs the matrix products of prompts: generated kernels, cublaslt, or auto, what "
                 "should be faster")
      ->check(word(strings(matmulWords())))
      ->default_str(PipelineOptions().matmul);
}

static void addDecode(CLI::App &sub, std::optional<std::string> &decode) {
  sub.add_option(
         "--decode", decode,
         "what runs the layers of a new token: graph, a kernel for each product and attention, persistent, one kernel "
         "for all (16 bits, Hopper, up to 8 sequences), or auto, persistent where it runs and is faster")
      ->check(word(strings(decodeWords())))
      ->default_str(PipelineOptions().decode);
}

static void addTuning(CLI::App &sub, std::optional<std::string> &tuning) {
  sub.add_option("--tuning", tuning, "what was measured of kernels: shipped, none, or a file of kiln tune")
      ->check(checkNotEmpty)
      ->default_str(PipelineOptions().tuning);
}

void addBatchInvariant(CLI::App &sub, std::optional<int64_t> &rows) {
  sub.add_option(
         "--batch-invariant", rows,
         "2 or more: a row's bits do not depend on the rows beside it, as far as docs/batch-invariance.md says; "
         "1: they may, and every number of rows has its fastest kernels")
      ->check(integer(1, mostBatchInvariant))
      ->default_str(std::to_string(PipelineOptions().batchInvariant));
}

std::string wordsName(const std::vector<std::string> &words) { return llvm::join(words, "|"); }

CLI::Validator word(const std::vector<std::string> &words) {
  return {[check = oneOf(words)](const std::string &text) { return check(text); }, "", wordsName(words)};
}

void addListing(CLI::App &sub, const char *name, const char *summary, void (*list)(raw_ostream &os)) {
  sub.add_flag_callback(
         name,
         [list] {
           list(standardOutput());
           throw CLI::Success();
         },
         summary)
      ->trigger_on_parse();
}

static void addStrategy(CLI::App &sub, std::optional<std::string> &strategy) {
  sub.add_option("--strategy", strategy, "optimisations by name, like matmul=tiled,layernorm=3")
      ->check([](const std::string &text) { return text.empty() ? "expected strategies, got none" : ""; });
  addListing(sub, "--list-strategies", "print what there is for --strategy", listStrategies);
}

void addPipeline(CLI::App &sub, PipelineChoices &pipeline) {
  addDType(sub, pipeline.dtype);
  addStrategy(sub, pipeline.strategy);
  addMatmul(sub, pipeline.matmul);
  addDecode(sub, pipeline.decode);
  addTuning(sub, pipeline.tuning);
  addBatchInvariant(sub, pipeline.batchInvariant);
}

void addRanks(CLI::App &sub, std::optional<int64_t> &ranks) {
  sub.add_option("--ranks", ranks, "GPUs among which the model's tensors are split")->check(integer(1, mostRanks));
}

void addProcesses(CLI::App &sub, bool &processes) {
  sub.add_flag("--processes", processes, "with a model that is split among GPUs: a process for each, not a thread");
}

std::vector<std::string> targetNames() {
  std::vector<std::string> names;
  for (const Target &target : allTargets())
    names.push_back(target.name);
  return names;
}

void addTarget(CLI::App &sub, std::string &target) {
  sub.add_option("--target", target, "the GPU's, a name of graphs/targets/")
      ->check(word(targetNames()))
      ->capture_default_str();
}

void addDevice(CLI::App &sub, std::string &device) {
  sub.add_option("--device", device, "cpu (the reference executor), emulate, cuda:N, or auto: the first GPU, else cpu")
      ->check(checkDevice, "", wordsName({"auto", "cpu", "emulate", "cuda:0"}))
      ->capture_default_str();
}

void addDevices(CLI::App &sub, std::string &devices) {
  sub.add_option(
         "--device", devices,
         "cpu (the reference executor), emulate, cuda:N, several GPUs like cuda:0,cuda:1, cuda:all, or auto: the "
         "first GPU, else cpu")
      ->check(checkDevices, "", wordsName({"auto", "cpu", "emulate", "cuda:0", "cuda:all"}))
      ->capture_default_str();
}

void addKernelDevices(CLI::App &sub, std::string &devices) {
  sub.add_option("--device", devices,
                 "emulate, cuda:N, several GPUs like cuda:0,cuda:1, cuda:all, or auto: the first GPU")
      ->check(checkDevices, "", wordsName({"auto", "emulate", "cuda:0", "cuda:all"}))
      ->capture_default_str();
}

void addKernelDevice(CLI::App &sub, std::string &device) {
  sub.add_option("--device", device, "emulate, cuda:N, or auto: the first GPU")
      ->check(checkDevice, "", wordsName({"auto", "emulate", "cuda:0"}))
      ->capture_default_str();
}

CLI::Option *addTrace(CLI::App &sub, std::string &path) {
  return sub.add_option("--trace", path, "also write what happened when, as a Chrome trace, for Perfetto")
      ->check(checkNotEmpty);
}

void addEvalForm(CLI::App &sub, std::optional<EvalForm> &form) {
  sub.add_option_function<std::string>(
         "--format", [&form](const std::string &name) { form = parseEvalForm(name); },
         "of the file: text, wikitext, jsonl, tokens or hellaswag (default: as it is recognised)")
      ->check(word(evalFormNames()));
}

void addWeights(CLI::App &sub, WeightOptions &weights) {
  CLI::Option *path = sub.add_option("--weights", weights.path,
                                     "directory with model.safetensors and vocabulary, a GGUF file or llm.c's .bin "
                                     "(default: MODEL, or what a plan was compiled from)");
  path->check(checkNotEmpty);
  sub.add_option("--random-weights", weights.randomSeed, "random weights from this seed instead")
      ->check(checkSeed)
      ->excludes(path);
}

} // namespace kiln
