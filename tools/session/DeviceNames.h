//===- DeviceNames.h - devices as --device names them ---------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Whether some build knows a device of that name: auto, cpu, emulate, cuda, cuda:N.
bool isDeviceName(StringRef name);

/// The number of a GPU that is named so: cuda, cuda:N.
std::optional<unsigned> ordinalOf(StringRef name);

/// What is wrong with a list of devices that are to do the same work: a device's name, cuda:all, or several devices
/// with kernels, separated by commas, all GPUs (each once) or all emulated. Empty if nothing is.
std::string deviceListProblem(StringRef names);

/// Resolves a device name of the command line: auto is the first GPU, or, without a GPU, the CPU's reference executor.
/// Other names stay as they are.
std::string resolveDevice(StringRef name);

/// The devices of a list without a problem, resolved. cuda:all are the machine's GPUs; without any, it is cuda:0, which
/// cannot be opened.
std::vector<std::string> resolveDevices(StringRef names);

/// The devices for a model that is split among so many ranks, one for each, or the reference executor, which runs all.
/// `emulate` stands for as many emulated devices, `auto` for the first GPUs. With one rank, like the above. Error: a
/// UsageError if the list has another number of devices, or the machine too few GPUs.
Expected<std::vector<std::string>> resolveDevices(StringRef names, int64_t ranks);

/// Resolves names like resolveDevices, for a command that needs devices with kernels. Error: a UsageError if the result
/// is the reference executor.
Expected<std::vector<std::string>> resolveKernelDevices(StringRef command, StringRef names, int64_t ranks = 1);

/// Like resolveKernelDevices for the name of one device.
Expected<std::string> resolveKernelDevice(StringRef command, StringRef name);

} // namespace kiln
