#include "runtime/TestDevice.h"
#include "runtime/device/emulated/EmulatedDevice.h"

namespace kiln {

int testDeviceCount() { return 8; }

Expected<std::unique_ptr<Device>> openTestDevice(int, bool compilesAhead) {
  EmulatedDevice::Options options;
  options.cacheDirectory = KILN_TEST_CACHE;
  options.checkAccesses = false;
  options.compilesAhead = compilesAhead;
  auto device = EmulatedDevice::create(options);
  if (!device)
    return device.takeError();
  return std::unique_ptr<Device>(std::move(*device));
}

std::string targetOf(const Device &) { return "sm_90a"; }

std::string testDeviceName() { return "emulate"; }

} // namespace kiln
