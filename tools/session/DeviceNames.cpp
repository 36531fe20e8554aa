#include "tools/session/DeviceNames.h"
#include "tools/session/UsageError.h"

#include "runtime/device/cuda/CudaDevice.h"

namespace kiln {

std::optional<unsigned> ordinalOf(StringRef name) {
  unsigned ordinal = 0;
  if (name == "cuda")
    return 0;
  return name.consume_front("cuda:") && !name.getAsInteger(10, ordinal) ? std::optional(ordinal) : std::nullopt;
}

bool isDeviceName(StringRef name) { return ordinalOf(name) || name == "auto" || name == "cpu" || name == "emulate"; }

std::string deviceListProblem(StringRef names) {
  if (isDeviceName(names) || names == "cuda:all")
    return "";
  SmallVector<StringRef, 8> list;
  names.split(list, ',');
  std::set<unsigned> ordinals;
  for (StringRef name : list)
    if (std::optional<unsigned> ordinal = ordinalOf(name); ordinal && !ordinals.insert(*ordinal).second)
      return "expected each GPU once, got '" + names.str() + "'";
  bool areGpus = ordinals.size() == list.size();
  bool areEmulated = llvm::all_of(list, [](StringRef name) { return name == "emulate"; });
  if (areGpus || areEmulated)
    return "";
  return "expected auto, cpu, emulate, cuda:N, or several GPUs, cuda:0,cuda:1 or cuda:all, got '" + names.str() + "'";
}

std::string resolveDevice(StringRef name) {
  if (name != "auto")
    return name.str();
  return CudaDevice::isAvailable() ? "cuda:0" : "cpu";
}

std::vector<std::string> resolveDevices(StringRef names) {
  std::vector<std::string> all;
  if (names == "cuda:all") {
    for (int i = 0; i < std::max(CudaDevice::count(), 1); ++i)
      all.push_back("cuda:" + std::to_string(i));
    return all;
  }
  SmallVector<StringRef, 8> list;
  names.split(list, ',');
  for (StringRef name : list)
    all.push_back(resolveDevice(name));
  return all;
}

Expected<std::vector<std::string>> resolveDevices(StringRef names, int64_t ranks) {
  std::vector<std::string> devices = resolveDevices(names);
  auto count = static_cast<size_t>(ranks);
  if (ranks == 1 || devices.front() == "cpu")
    return devices;
  if (names == "emulate")
    devices.resize(count, "emulate");
  if (names == "auto")
    for (size_t i = 1; i < count && i < static_cast<size_t>(CudaDevice::count()); ++i)
      devices.push_back("cuda:" + std::to_string(i));
  if (devices.size() == count)
    return devices;
  return makeUsageError("--device " + names + ": expected " + Twine(ranks) +
                        " devices, one for each rank of the model, got " + Twine(devices.size()));
}

Expected<std::vector<std::string>> resolveKernelDevices(StringRef command, StringRef names, int64_t ranks) {
  Expected<std::vector<std::string>> devices = resolveDevices(names, ranks);
  if (!devices || devices->front() != "cpu")
    return devices;
  StringRef why = names == "auto" ? "there is no GPU, so that auto is cpu, " : "";
  return makeUsageError("--device " + names + ": " + why + "the reference executor, which runs no kernels; " + command +
                        " takes --device emulate or cuda:N");
}

Expected<std::string> resolveKernelDevice(StringRef command, StringRef name) {
  Expected<std::vector<std::string>> devices = resolveKernelDevices(command, name);
  if (!devices)
    return devices.takeError();
  return std::move(devices->front());
}

} // namespace kiln
