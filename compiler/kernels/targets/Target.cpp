#include "kernels/targets/Target.h"

#include "kernels/targets/TargetFiles.h"
#include "support/ConfigFields.h"
#include "support/Diagnostic.h"

namespace kiln {

int Target::computeCapability() const {
  int value = 0;
  StringRef(name).drop_front(3).take_while(llvm::isDigit).getAsInteger(10, value);
  return value;
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

/// The files are part of the program, so what is wrong in one is a bug and stops it.
static double number(const ConfigValue &root, StringRef key) {
  double value = 0;
  cantFail(Fields(root, "target").number(key, value), "graphs/targets");
  return value;
}

static Target parseTarget(StringRef name, StringRef text) {
  SourceManager sources;
  ConfigValue root = cantFail(parseToml(sources.add(name, text.str())), "graphs/targets");
  Target target;
  target.name = llvm::sys::path::stem(name).str();
  target.device = root.find("device")->string;
  target.multiprocessors = static_cast<int>(number(root, "multiprocessors"));
  target.threadsPerMultiprocessor = static_cast<int>(number(root, "threads_per_multiprocessor"));
  target.blocksPerMultiprocessor = static_cast<int>(number(root, "blocks_per_multiprocessor"));
  target.sharedPerMultiprocessor = static_cast<int>(number(root, "shared_kb_per_multiprocessor") * 1024);
  target.sharedPerBlock = static_cast<int>(number(root, "shared_kb_per_block") * 1024);
  target.l2Bytes = number(root, "l2_mb") * 1024 * 1024;
  target.memoryRate = number(root, "memory_tb_s") * 1e12;
  target.l2Rate = number(root, "l2_tb_s") * 1e12;
  target.f32Rate = number(root, "f32_tflop_s") * 1e12;
  target.tensorRate = number(root, "tensor_tflop_s") * 1e12;
  target.mmaRate = number(root, "mma_tflop_s") * 1e12;
  target.launchSeconds = number(root, "launch_us") * 1e-6;
  return target;
}

ArrayRef<Target> allTargets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> parsed;
    for (const EmbeddedFile &file : targetFiles())
      if (!file.name.ends_with(tuningSuffix))
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

} // namespace kiln
