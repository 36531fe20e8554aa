#include "runtime/TestDevice.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "support/files/Cache.h"

namespace kiln {

int testDeviceCount() { return CudaDevice::count(); }

Expected<std::unique_ptr<Device>> openTestDevice(int number, bool) {
  auto device = CudaDevice::create({number, defaultCacheDirectory(), {}});
  if (!device)
    return device.takeError();
  return std::unique_ptr<Device>(std::move(*device));
}

std::string targetOf(const Device &device) { return static_cast<const CudaDevice &>(device).target(); }

std::string testDeviceName() { return "cuda:0"; }

} // namespace kiln
