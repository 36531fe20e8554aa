#include "kernels/targets/Target.h"

#include "kernels/targets/TargetFiles.h"
#include "support/Diagnostic.h"
#include "support/model/TargetName.h"
#include "support/text/ConfigFields.h"

namespace kiln {

int Target::computeCapability() const { return kiln::computeCapability(name); }

int64_t Target::sharedOfAtMost(int64_t blocks) const {
  return std::min<int64_t>(sharedPerBlock, sharedOfEach(blocks + 1) + 128);
}

double Target::arithmeticRate(DType dtype, bool isRounded) const {
  if (dtype == DType::F32 && !isRounded)
    return f32Rate;
  return std::max(f32Rate, dtype == DType::F32 ? tensorRate / 2 : tensorRate);
}

double Target::rooflineSeconds(int64_t bytes, int64_t flops, DType dtype, bool isRounded) const {
  return std::max(static_cast<double>(bytes) / memoryRate,
                  static_cast<double>(flops) / arithmeticRate(dtype, isRounded));
}

namespace {

/// Reads the numbers of a table. All of them must exist, and no others. The files are part of the program, so an error
/// in one is a bug and ends the program.
class Numbers {
public:
  Numbers(const ConfigValue &table, StringRef name) : fields(table, name) {}

  /// A number, given in units of `unit`.
  double operator()(StringRef key, double unit = 1) {
    double value = 0;
    cantFail(fields.number(key, value), "graphs/targets");
    return value * unit;
  }
  int whole(StringRef key, double unit = 1) { return static_cast<int>((*this)(key, unit)); }

  std::string text(StringRef key) {
    std::string value;
    cantFail(fields.text(key, value), "graphs/targets");
    return value;
  }

  Numbers table(StringRef key) {
    const ConfigValue *value = nullptr;
    cantFail(fields.table(key, value), "graphs/targets");
    return {*value, key};
  }

  Fields fields;
};

} // namespace

constexpr double kilo = 1024, micro = 1e-6, nano = 1e-9, pico = 1e-12, giga = 1e9, tera = 1e12;

static void readProductTimes(Numbers &root, KernelTimes &times) {
  Numbers row = root.table("gemv_row_simt"), rows = root.table("gemv_mma"), tiled = root.table("gemm_mma"),
          split = root.table("gemm_mma_split_k"), wgmma = root.table("gemm_wgmma"),
          wgmmaRows = root.table("gemv_wgmma"), warps = root.table("gemv_mma_warps"),
          decode = root.table("decode_layers"), library = root.table("cublaslt");
  times.rowProduct = {.fullLoads = row("full_loads_bytes"),
                      .loadsPower = row("loads_power"),
                      .doubleBuffered = row("double_buffered"),
                      .imbalancePower = row("imbalance_power"),
                      .arithmeticRate = row("arithmetic_rate"),
                      .normalize = row("normalize_us", micro),
                      .normalizeWarp = row("normalize_warp_us", micro),
                      .tile = row("tile_us", micro),
                      .turn = row("turn_us", micro)};
  times.mmaWarps = {.fullLoads = warps("full_loads_bytes"),
                    .loadsPower = warps("loads_power"),
                    .imbalancePower = warps("imbalance_power"),
                    .rowsRate = warps("rows_gb_s", giga),
                    .chain = warps("chain_cycles"),
                    .product = warps("product_cycles"),
                    .issue = warps("issue_cycles"),
                    .turn = warps("turn_cycles"),
                    .ahead = warps("ahead_us", micro),
                    .block = warps("block_us", micro),
                    .ends = warps("ends_us", micro)};
  times.mmaRows = {.round = rows("round_us", micro)};
  times.mmaTiled = {.ends = tiled("ends_us", micro), .output = tiled("output_ns", nano), .unhidden = tiled("unhidden")};
  times.mmaSplit = {.sum = split("sum_us", micro)};
  times.wgmmaTiled = {.rate = wgmma("rate"),
                      .loadBytes = wgmma("load_bytes"),
                      .l2Bytes = wgmma("l2_bytes"),
                      .gap = wgmma("step_cycles"),
                      .range = wgmma("range_cycles"),
                      .output = wgmma("output_us", micro),
                      .element = wgmma("element_ns", nano),
                      .ends = wgmma("ends_us", micro),
                      .multicast = wgmma("multicast_cycles"),
                      .cluster = wgmma("cluster_us", micro),
                      .exchange = wgmma("exchange_us", micro),
                      .exchangeRate = wgmma("exchange_gb_s", giga),
                      .clusteredShare = wgmma("clustered_share")};
  times.wgmmaRows = {.ends = wgmmaRows("ends_us", micro),
                     .rowsRate = wgmmaRows("rows_gb_s", giga),
                     .step = wgmmaRows("step_us", micro),
                     .exchange = wgmmaRows("exchange_us", micro),
                     .exchangeRate = wgmmaRows("exchange_gb_s", giga)};
  times.decodeLayers = {
      .layer = decode("layer_us", micro), .row = decode("row_ns", nano), .ends = decode("ends_us", micro)};
  times.library = {.rate = library("rate"), .ends = library("ends_us", micro)};
  for (Numbers *table : {&row, &warps, &rows, &tiled, &split, &wgmma, &wgmmaRows, &decode, &library})
    cantFail(table->fields.close(), "graphs/targets");
}

static void readAttentionTimes(Numbers &root, KernelTimes &times) {
  Numbers split = root.table("attention_split_kv"), mma = root.table("attention_mma"),
          wgmma = root.table("attention_wgmma");
  times.splitKv = {.round = split("round_us", micro),
                   .loadRate = split("load_gb_s", giga),
                   .blockStart = split("block_start_ns", nano),
                   .tail = split("tail"),
                   .exchange = split("exchange_us", micro),
                   .clusterExchange = split("cluster_exchange_us", micro)};
  times.mmaFlash = {.gap = mma("gap_cycles"), .ends = mma("ends_us", micro)};
  times.wgmmaFlash = {.gap = wgmma("gap_cycles"),
                      .alone = wgmma("alone"),
                      .copies = wgmma("copies_cycles"),
                      .ringOf2 = wgmma("ring_of_2_cycles"),
                      .busy = wgmma("busy"),
                      .beside = wgmma("beside"),
                      .loadRate = wgmma("load_gb_s", giga),
                      .range = wgmma("range_cycles"),
                      .handOver = wgmma("hand_over_cycles"),
                      .fill = wgmma("fill_ps", pico),
                      .ends = wgmma("ends_us", micro)};
  for (Numbers *table : {&split, &mma, &wgmma})
    cantFail(table->fields.close(), "graphs/targets");
}

/// Reads graphs/targets/NAME.times.toml.
static KernelTimes readTimes(const std::string &name) {
  auto file = llvm::find_if(targetFiles(), [&](const EmbeddedFile &f) { return f.name == name + timesSuffix.str(); });
  if (file == targetFiles().end())
    llvm::report_fatal_error(Twine("graphs/targets: missing file ") + name + timesSuffix);
  SourceManager sources;
  ConfigValue table = cantFail(parseToml(sources.add(file->name, file->text.str())), "graphs/targets");
  Numbers root(table, file->name);
  root.text("device"); // only for readers
  KernelTimes times;
  times.clock = root("clock_ghz", giga);
  times.memoryLatency = root("memory_latency_us", micro);
  times.blockStart = root("block_start_ns", nano);
  times.blockReduction = root("block_reduction_us", micro);
  readProductTimes(root, times);
  readAttentionTimes(root, times);
  cantFail(root.fields.close(), "graphs/targets");
  return times;
}

static Target parseTarget(StringRef name, StringRef text) {
  SourceManager sources;
  ConfigValue file = cantFail(parseToml(sources.add(name, text.str())), "graphs/targets");
  Numbers root(file, name);
  Target target;
  target.name = llvm::sys::path::stem(name).str();
  target.device = root.text("device");
  target.multiprocessors = root.whole("multiprocessors");
  target.threadsPerMultiprocessor = root.whole("threads_per_multiprocessor");
  target.blocksPerMultiprocessor = root.whole("blocks_per_multiprocessor");
  target.sharedPerMultiprocessor = root.whole("shared_kb_per_multiprocessor", kilo);
  target.sharedPerBlock = root.whole("shared_kb_per_block", kilo);
  target.l2Bytes = root("l2_mb") * 1024 * 1024;
  target.memoryRate = root("memory_tb_s", tera);
  target.l2Rate = root("l2_tb_s", tera);
  target.f32Rate = root("f32_tflop_s", tera);
  target.tensorRate = root("tensor_tflop_s", tera);
  target.mmaRate = root("mma_tflop_s", tera);
  target.launchSeconds = root("launch_us", micro);
  cantFail(root.fields.flag("wgmma", target.hasWgmma), "graphs/targets");
  target.hasClusters = target.computeCapability() >= clusterCapability;
  target.times = readTimes(root.text("times"));
  cantFail(root.fields.close(), "graphs/targets");
  return target;
}

/// Whether a file describes a target, and is not one of the files beside it.
static bool isTarget(StringRef name) {
  return llvm::none_of(std::array{timesSuffix, tuningSuffix, ladderSuffix},
                       [&](StringRef suffix) { return name.ends_with(suffix); });
}

ArrayRef<Target> allTargets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> parsed;
    for (const EmbeddedFile &file : targetFiles())
      if (isTarget(file.name))
        parsed.push_back(parseTarget(file.name, file.text));
    return parsed;
  }();
  return targets;
}

Expected<const Target *> findTarget(StringRef name) {
  std::vector<StringRef> known;
  for (const Target &target : allTargets()) {
    if (target.name == name)
      return &target;
    known.push_back(target.name);
  }
  return makeError("unknown target '" + name + "': expected " + llvm::join(known, ", "));
}

const Target &portable(const Target &target) {
  static const std::vector<Target> targets = [] {
    std::vector<Target> all = allTargets().vec();
    auto hasLess = [](const Target &a, const Target &b) { return a.sharedPerBlock < b.sharedPerBlock; };
    const int least = llvm::min_element(all, hasLess)->sharedPerBlock;
    for (Target &one : all) {
      one.sharedPerBlock = least;
      one.hasWgmma = one.hasClusters = false;
    }
    return all;
  }();
  return *llvm::find_if(targets, [&](const Target &one) { return one.name == target.name; });
}

std::vector<std::string> ptxTargets() {
  std::vector<std::string> names;
  for (const Target &target : allTargets())
    names.push_back("compute_" + std::to_string(target.computeCapability()));
  return names;
}

Error checkCodeTarget(StringRef name) {
  if (!isPtxTarget(name))
    return findTarget(name).takeError();
  std::vector<std::string> known = ptxTargets();
  if (llvm::is_contained(known, name))
    return Error::success();
  return makeError("unknown target '" + name + "': expected " + llvm::join(known, ", ") + " for PTX");
}

} // namespace kiln
