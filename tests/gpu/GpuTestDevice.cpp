#include "runtime/TestDevice.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "support/Cache.h"

namespace kiln {

Expected<std::unique_ptr<Device>> openTestDevice() {
  auto device = CudaDevice::create({0, defaultCacheDirectory(), {}});
  if (!device)
    return device.takeError();
  return std::unique_ptr<Device>(std::move(*device));
}

std::string targetOf(const Device &device) { return static_cast<const CudaDevice &>(device).target(); }

std::string testDeviceName() { return "cuda:0"; }

} // namespace kiln
