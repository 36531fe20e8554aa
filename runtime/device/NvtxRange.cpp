#include "runtime/device/NvtxRange.h"

#ifdef KILN_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace kiln {

#ifdef KILN_HAS_NVTX

/// Null if no tool listens. The first call looks for one, in NVTX_INJECTION64_PATH.
static nvtxDomainHandle_t nvtxDomain() {
  static auto *const domain = nvtxDomainCreateA("kiln");
  return domain;
}

NvtxRange::NvtxRange(function_ref<std::string()> name) {
  if (!nvtxDomain())
    return;
  const std::string text = name();
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text.c_str();
  nvtxDomainRangePushEx(nvtxDomain(), &attributes);
}

NvtxRange::~NvtxRange() {
  if (nvtxDomain())
    nvtxDomainRangePop(nvtxDomain());
}

#else

NvtxRange::NvtxRange(function_ref<std::string()> name) {}
NvtxRange::~NvtxRange() = default;

#endif

NvtxRange::NvtxRange(StringRef name) : NvtxRange([&] { return name.str(); }) {}

} // namespace kiln
