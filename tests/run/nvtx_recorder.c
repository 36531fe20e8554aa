/* A tool for NVTX, which programs load because of NVTX_INJECTION64_PATH: writes the ranges of the domain kiln into the
   file that KILN_NVTX_RECORD names. `+NAME` begins one, `-` ends the last one that has begun in the same thread. */
#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *record;
static int domainKiln;

static nvtxDomainHandle_t NVTX_API createDomain(const char *name) {
  return strcmp(name, "kiln") == 0 ? (nvtxDomainHandle_t)&domainKiln : NULL;
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
  if (domain == (nvtxDomainHandle_t)&domainKiln && event->messageType == NVTX_MESSAGE_TYPE_ASCII)
    fprintf(record, "%lx +%s\n", (unsigned long)pthread_self(), event->message.ascii);
  return 0;
}

static int NVTX_API pop(nvtxDomainHandle_t domain) {
  if (domain == (nvtxDomainHandle_t)&domainKiln)
    fprintf(record, "%lx -\n", (unsigned long)pthread_self());
  return 0;
}

/* NVTX looks for this name. Returns whether the tool listens. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t getExportTable) {
  const NvtxExportTableCallbacks *callbacks = getExportTable(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable functions;
  unsigned int count = 0;
  record = fopen(getenv("KILN_NVTX_RECORD"), "w");
  if (!record || !callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) ||
      count <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)createDomain;
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
  *functions[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
