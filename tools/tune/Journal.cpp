#include "tools/tune/Journal.h"

#include "support/Diagnostic.h"
#include "support/File.h"
#include "support/Json.h"

namespace kiln {

static StringRef stateName(Trial::State state) {
  switch (state) {
  case Trial::State::Timed:
    return "timed";
  case Trial::State::Wrong:
    return "wrong";
  default:
    return "failed";
  }
}

/// The trial that a line is about, or null: the last line may be torn, and configurations may have gone.
static Trial *findTrial(const json::Object &line, MutableArrayRef<TuningProblem> problems) {
  for (TuningProblem &problem : problems) {
    if (line.getString("problem") != problem.name || line.getInteger("rows") != problem.rows)
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
    Expected<json::Value> value = json::parse(line);
    if (!value) {
      llvm::consumeError(value.takeError());
      continue;
    }
    const json::Object *object = value->getAsObject();
    Trial *trial = object ? findTrial(*object, problems) : nullptr;
    std::optional<StringRef> state = trial ? object->getString("state") : std::nullopt;
    if (!state)
      continue;
    trial->seconds = object->getNumber("seconds").value_or(0);
    trial->state = *state == "timed"   ? Trial::State::Timed
                   : *state == "wrong" ? Trial::State::Wrong
                                       : Trial::State::Failed;
    ++count;
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
  // After a torn line.
  if (isThis && !StringRef(text).ends_with("\n"))
    *journal.os << '\n';
  return journal;
}

Error TuningJournal::add(const TuningProblem &problem, const Trial &trial) {
  *os << jsonText(json::Object{{"problem", problem.name},
                               {"rows", problem.rows},
                               {"kernel", trial.choice.family->name},
                               {"tile", Attribute(trial.choice.tile).str()},
                               {"state", stateName(trial.state)},
                               {"seconds", trial.seconds}})
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
