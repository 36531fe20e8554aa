#include "tools/tune/Journal.h"

#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/text/Json.h"

namespace kiln {

/// Reads the result of a trial from a line. False: the line holds no possible result.
static bool readState(const json::Object &line, Trial &trial) {
  std::optional<StringRef> state = line.getString("state");
  if (state == "timed") {
    trial.seconds = line.getNumber("seconds").value_or(0);
    if (!(trial.seconds > 0))
      return false;
    trial.state = Trial::State::Timed;
    return true;
  }
  if (state != "wrong" && state != "failed")
    return false;
  trial.reject(state == "wrong" ? Trial::State::Wrong : Trial::State::Failed,
               line.getString("reason").value_or("").str());
  return true;
}

/// The trial of a line, or null: the last line may be torn, and configurations may have been removed.
static Trial *findTrial(const json::Object &line, MutableArrayRef<TuningProblem> problems) {
  for (TuningProblem &problem : problems) {
    // Calls of other lengths may have the same bound, but not the same times.
    if (line.getString("problem") != problem.name || line.getInteger("rows") != problem.rows ||
        line.getInteger("tokens") != problem.tokens || line.getString("call") != problem.call.str())
      continue;
    for (Trial &trial : problem.trials)
      if (line.getString("kernel") == trial.choice.family->name &&
          line.getString("tile") == Attribute(trial.choice.tile).str())
        return &trial;
  }
  return nullptr;
}

static size_t readTrials(StringRef text, MutableArrayRef<TuningProblem> problems) {
  size_t count = 0;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    SourceFile entry{"journal", line.str()};
    Expected<JsonObject> object = parseJsonObject(&entry);
    if (!object) {
      llvm::consumeError(object.takeError());
      continue;
    }
    Trial *trial = findTrial(object->values, problems);
    count += trial && readState(object->values, *trial);
  }
  return count;
}

Expected<TuningJournal> TuningJournal::open(StringRef path, StringRef heading,
                                            MutableArrayRef<TuningProblem> problems) {
  TuningJournal journal;
  journal.path = path.str();
  std::string text;
  if (llvm::sys::fs::exists(path)) {
    Expected<std::string> old = readFile(path);
    if (!old)
      return old.takeError();
    text = std::move(*old);
  }
  std::string first = (heading + "\n").str();
  bool isThis = StringRef(text).starts_with(first);
  if (isThis)
    journal.found = readTrials(StringRef(text).drop_front(first.size()), problems);
  else if (Error error = writeFile(path, first))
    return error;
  std::error_code failure;
  journal.os = std::make_unique<llvm::raw_fd_ostream>(path, failure, llvm::sys::fs::OF_Append);
  if (failure)
    return makeFileError(path, "cannot write: " + failure.message());
  // The last line may be torn: the next one begins on its own line.
  if (isThis && !StringRef(text).ends_with("\n"))
    *journal.os << '\n';
  return journal;
}

Error TuningJournal::add(const TuningProblem &problem, const Trial &trial) {
  *os << jsonText(json::Object{{"problem", problem.name},
                               {"rows", problem.rows},
                               {"tokens", problem.tokens},
                               {"call", problem.call.str()},
                               {"kernel", trial.choice.family->name},
                               {"tile", Attribute(trial.choice.tile).str()},
                               {"state", trial.stateName()},
                               {"seconds", trial.seconds},
                               {"reason", json::fixUTF8(trial.reason)}})
      << '\n';
  os->flush();
  if (!os->has_error())
    return Error::success();
  std::error_code failure = os->error();
  os->clear_error();
  return makeFileError(path, "cannot write: " + failure.message());
}

Error TuningJournal::remove() {
  os.reset();
  if (std::error_code failure = llvm::sys::fs::remove(path))
    return makeFileError(path, "cannot remove: " + failure.message());
  return Error::success();
}

} // namespace kiln
