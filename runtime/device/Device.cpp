#include "runtime/device/Device.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"

namespace kiln {

Expected<std::string> KernelFiles::text(StringRef kernel) const {
  Expected<std::string> text = readFile(source(kernel));
  if (!text || macro.empty())
    return text;
  return "#define " + macro + "\n" + *text;
}

std::vector<size_t> sequenceOf(size_t count, const GraphBranch &beside) {
  const size_t all = count + beside.launches.size();
  std::vector<size_t> order;
  BitVector done(all);
  auto isReady = [&](size_t launch) {
    return (launch < count || order.size() >= beside.from) &&
           llvm::none_of(beside.order, [&](auto pair) { return pair.second == launch && !done[pair.first]; });
  };
  size_t next[] = {0, count};
  const size_t ends[] = {count, all};
  while (order.size() < all) {
    [[maybe_unused]] const size_t before = order.size();
    for (int side : {0, 1})
      if (next[side] < ends[side] && isReady(next[side])) {
        done.set(next[side]);
        order.push_back(next[side]++);
      }
    assert(order.size() > before && "launches wait for each other");
  }
  return order;
}

/// What an argument is, for messages: `the dim B`.
static std::string describeArgument(StringRef argument, bool isAddress, bool isMap) {
  return (isMap ? "a map of " : isAddress ? "the address " : argument == "@rank" ? "" : "the dim ") + argument.str();
}

Error checkArguments(const PlanLaunch &launch, const PlanKernel &kernel, ArrayRef<int64_t> parameterBytes) {
  size_t parameter = 0;
  for (size_t i = 0; i < launch.arguments.size(); ++parameter) {
    StringRef argument = launch.arguments[i];
    const int64_t count = kernel.argumentsAt(static_cast<int64_t>(i));
    bool isAddress = argument.starts_with("%") || (argument.starts_with("@") && argument != "@rank");
    bool isMap =
        llvm::any_of(kernel.maps, [i](const PlanTensorMap &map) { return map.argument == static_cast<int64_t>(i); });
    int64_t bytes = count * static_cast<int64_t>(isMap ? tensorMapBytes : isAddress ? 8 : 4);
    if (parameter < parameterBytes.size() && bytes != parameterBytes[parameter])
      return makeError("kernel " + launch.kernel + ": argument " + Twine(i + 1) + ": expected " +
                       Twine(parameterBytes[parameter]) + " bytes, got " +
                       (count > 1 ? "an array of " + std::to_string(count) + ", with " : "") +
                       describeArgument(argument, isAddress, isMap) + " of " + Twine(bytes) + " bytes");
    i += static_cast<size_t>(count);
  }
  if (parameter != parameterBytes.size())
    return makeError("kernel " + launch.kernel + ": expected " + Twine(parameterBytes.size()) +
                     " arguments in the plan, got " + Twine(parameter));
  return Error::success();
}

SmallVector<void *, 16> parameterPointers(const KernelLaunch &launch, MutableArrayRef<uint64_t> words, void *maps) {
  SmallVector<void *, 16> pointers;
  size_t map = 0;
  for (size_t first : launch.parameters) {
    while (map < launch.maps.size() && launch.maps[map].argument < first)
      ++map;
    bool isMap = map < launch.maps.size() && launch.maps[map].argument == first;
    pointers.push_back(isMap ? static_cast<void *>(static_cast<char *>(maps) + map * tensorMapBytes) : &words[first]);
  }
  return pointers;
}

Error wrongConstant(StringRef kernel, StringRef name, int64_t bytes) {
  return makeError("kernel " + kernel + ": expected an array '" + name + "' of " + Twine(bytes) +
                   " bytes in constant memory, found none");
}

} // namespace kiln
