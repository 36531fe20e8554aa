#include "tools/ladder/Reasons.h"

#include "kernels/targets/Target.h"
#include "kernels/targets/TargetFiles.h"
#include "support/text/ConfigFields.h"

namespace kiln {

StringRef LadderReasons::why(StringRef part, StringRef rung) const {
  for (const Reason &reason : reasons)
    if (llvm::is_contained(reason.parts, part) && llvm::is_contained(reason.rungs, rung))
      return reason.why;
  return "";
}

static Error readReason(const ConfigValue &table, LadderReasons::Reason &reason) {
  Fields fields(table, "reason");
  return chain([&] { return fields.texts("parts", reason.parts); }, [&] { return fields.texts("rungs", reason.rungs); },
               [&] { return fields.text("why", reason.why); }, [&] { return fields.close(); });
}

static Expected<LadderReasons> readReasons(const SourceFile *file) {
  Expected<ConfigValue> root = parseToml(file);
  if (!root)
    return root.takeError();
  LadderReasons read;
  Fields fields(*root, "ladder");
  if (Error error =
          chain([&] { return fields.text("device", read.device); },
                [&] { return fields.each("reason", read.reasons, readReason); }, [&] { return fields.close(); }))
    return error;
  return read;
}

ArrayRef<LadderReasons> allLadderReasons() {
  static const std::vector<LadderReasons> all = [] {
    std::vector<LadderReasons> parsed;
    SourceManager sources;
    for (const EmbeddedFile &file : targetFiles())
      if (file.name.ends_with(ladderSuffix)) // the file is part of the program: an error in it is a bug
        parsed.push_back(cantFail(readReasons(sources.add(file.name, file.text.str())), "graphs/targets"));
    return parsed;
  }();
  return all;
}

const LadderReasons *findLadderReasons(StringRef device) {
  auto it = llvm::find_if(allLadderReasons(), [&](const LadderReasons &own) { return own.device == device; });
  return it == allLadderReasons().end() ? nullptr : &*it;
}

} // namespace kiln
