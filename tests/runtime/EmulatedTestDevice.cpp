#include "runtime/TestDevice.h"
#include "runtime/device/emulated/EmulatedDevice.h"

namespace kiln {

Expected<std::unique_ptr<Device>> openTestDevice() {
  auto device = EmulatedDevice::create({KILN_TEST_CACHE, {}, false});
  if (!device)
    return device.takeError();
  return std::unique_ptr<Device>(std::move(*device));
}

std::string testDeviceName() { return "emulate"; }

} // namespace kiln
