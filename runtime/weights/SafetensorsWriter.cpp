#include "runtime/weights/SafetensorsWriter.h"

#include "support/text/Json.h"

namespace kiln {

void sortForSafetensors(std::vector<SafetensorsItem> &items) {
  llvm::stable_sort(items, [](const SafetensorsItem &a, const SafetensorsItem &b) {
    return dtypeSize(a.dtype) > dtypeSize(b.dtype);
  });
}

std::string safetensorsHeader(ArrayRef<SafetensorsItem> items) {
  // transformers refuses files that do not say whose tensors they are.
  std::string header = R"({"__metadata__":{"format":"pt"})";
  int64_t begin = 0;
  for (const SafetensorsItem &item : items) {
    int64_t end = begin + *elementCount(item.shape) * dtypeSize(item.dtype);
    json::Object entry{{"dtype", dtypeName(item.dtype).upper()},
                       {"shape", json::Array(item.shape)},
                       {"data_offsets", json::Array{begin, end}}};
    header += "," + jsonText(item.name) + ":" + jsonText(std::move(entry));
    begin = end;
  }
  header += "}";
  header.resize(llvm::alignTo(header.size(), 8), ' ');
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof length) + header;
}

} // namespace kiln
