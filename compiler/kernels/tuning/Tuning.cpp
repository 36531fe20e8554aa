#include "kernels/tuning/Tuning.h"

#include "kernels/targets/TargetFiles.h"
#include "support/Diagnostic.h"
#include "support/text/ConfigFields.h"

namespace kiln {

/// Attributes that change an inner loop, and so belong to the key.
constexpr StringRef tellingAttributes[] = {"precision", "window"};

std::string problemName(const Op &op) {
  std::string text = op.region() ? op.symbol : op.mnemonic().str();
  auto addTypes = [&](auto &&values) {
    std::vector<std::string> types;
    for (const Value *value : values)
      types.push_back(value->type.str());
    text += llvm::join(types, ", ");
  };
  text += "(";
  addTypes(op.inputs());
  text += ") -> ";
  addTypes(llvm::map_range(op.results(), [](const auto &result) { return &*result; }));
  auto addAttributes = [&](const Op &inner) {
    for (StringRef name : tellingAttributes)
      if (const Attribute *attribute = inner.attribute(name))
        text += (" " + name + "=" + attribute->str()).str();
  };
  if (!op.region())
    addAttributes(op);
  else
    for (const auto &inner : op.region()->ops())
      addAttributes(*inner);
  return text;
}

//===----------------------------------------------------------------------===//
// TuningDatabase
//===----------------------------------------------------------------------===//

static Expected<Tile> readTile(const ConfigValue &value) {
  Tile tile;
  for (const ConfigMember &setting : value.table) {
    if (setting.value.kind == ConfigValue::Kind::Int)
      tile.insert_or_assign(setting.key, setting.value.integer);
    else if (setting.value.kind == ConfigValue::Kind::Bool)
      tile.insert_or_assign(setting.key, setting.value.boolean);
    else
      return configError(setting.key, setting.value, "an integer, true or false");
  }
  return tile;
}

static Error readChoice(const ConfigValue &entry, TunedChoice &choice) {
  Fields fields(entry, "choice");
  std::string kernel;
  const ConfigValue *tile = nullptr;
  double us = 0, modelUs = 0;
  if (Error error = chain([&] { return fields.text("problem", choice.problem); },
                          [&] { return fields.integer("rows", choice.rows); },
                          [&] { return fields.optionalInteger("tokens", choice.tokens, 1); },
                          [&] { return fields.text("kernel", kernel); }, [&] { return fields.table("tile", tile); },
                          [&] { return fields.number("us", us); }, [&] { return fields.number("model_us", modelUs); },
                          [&] { return fields.optionalText("call", choice.call); }, [&] { return fields.close(); }))
    return error;
  choice.seconds = us * 1e-6;
  choice.modelSeconds = modelUs * 1e-6;
  choice.choice.family = findKernelFamily(kernel);
  if (!choice.choice.family || choice.choice.family->form == KernelForm::Library)
    return configError("kernel", *entry.find("kernel"), "the name of a kernel family");
  Expected<Tile> settings = readTile(*tile);
  if (!settings)
    return settings.takeError();
  choice.choice.tile = std::move(*settings);
  return Error::success();
}

Expected<TuningDatabase> TuningDatabase::parse(const SourceFile *file) {
  Expected<ConfigValue> root = parseToml(file);
  if (!root)
    return root.takeError();
  Fields fields(*root, "tuning database");
  TuningDatabase database;
  std::vector<TunedChoice> choices;
  if (Error error =
          chain([&] { return fields.text("target", database.target); },
                [&] { return fields.text("device", database.device); },
                [&]() -> Error {
                  if (Error unknown = findTarget(database.target).takeError())
                    return makeError(root->find("target")->loc, takeDiagnostics(std::move(unknown)).front().message);
                  return Error::success();
                },
                [&] { return fields.optionalEach("choice", choices, readChoice); }, [&] { return fields.close(); }))
    return error;
  for (auto [i, choice] : llvm::enumerate(choices)) {
    if (database.findExactly(choice.problem, choice.rows, choice.tokens))
      return makeError(root->find("choice")->array[i].loc, "expected each problem once, got " + choice.problem +
                                                               " with " + Twine(choice.rows) + " rows again");
    database.set(std::move(choice));
  }
  return database;
}

std::string TuningDatabase::str() const {
  std::string text = "# Written by kiln tune.\ntarget = \"" + target + "\"\ndevice = \"" + device + "\"\n";
  for (const auto &[key, entry] : choices) {
    text += formatv("\n[[choice]]\nproblem = \"{0}\"\nrows = {1}\n{6}kernel = \"{2}\"\ntile = {3}\nus = {4:F2}\n"
                    "model_us = {5:F2}\n",
                    entry.problem, entry.rows, entry.choice.family->name, Attribute(entry.choice.tile).str(),
                    entry.seconds * 1e6, entry.modelSeconds * 1e6,
                    entry.tokens == 0 ? std::string() : "tokens = " + std::to_string(entry.tokens) + "\n")
                .str();
    if (!entry.call.empty())
      text += "call = \"" + entry.call + "\"\n";
  }
  return text;
}

/// The problem with f16 in place of bf16 and bf16 in place of f16.
static std::string withOtherType(StringRef problem) {
  constexpr StringRef f16 = "f16[";
  std::string text;
  for (size_t at; (at = problem.find(f16)) != StringRef::npos; problem = problem.drop_front(at + f16.size())) {
    StringRef before = problem.take_front(at);
    text += before.consume_back("b") ? (before + f16).str() : (before + "b" + f16).str();
  }
  return text + problem.str();
}

const TunedChoice *TuningDatabase::find(StringRef problem, int64_t rows, int64_t tokens) const {
  const TunedChoice *found = findExactly(problem, rows, tokens);
  return found ? found : findExactly(withOtherType(problem), rows, tokens);
}

const TunedChoice *TuningDatabase::findExactly(StringRef problem, int64_t rows, int64_t tokens) const {
  auto it = choices.find({problem.str(), rows, tokens});
  return it == choices.end() ? nullptr : &it->second;
}

std::vector<int64_t> TuningDatabase::tokenBounds(StringRef problem) const {
  std::set<int64_t> bounds;
  for (const std::string &name : {problem.str(), withOtherType(problem)})
    for (auto it = choices.lower_bound({name, 0, 0}); it != choices.end() && it->second.problem == name; ++it)
      if (it->second.tokens > 0)
        bounds.insert(it->second.tokens);
  return {bounds.begin(), bounds.end()};
}

void TuningDatabase::set(TunedChoice choice) {
  std::tuple<std::string, int64_t, int64_t> key(choice.problem, choice.rows, choice.tokens);
  choices.insert_or_assign(std::move(key), std::move(choice));
}

std::vector<TunedChoice> TuningDatabase::entries() const {
  std::vector<TunedChoice> all;
  for (const auto &[key, entry] : choices)
    all.push_back(entry);
  return all;
}

const TuningDatabase *shippedTuning(StringRef target) {
  static const std::map<std::string, TuningDatabase, std::less<>> databases = [] {
    std::map<std::string, TuningDatabase, std::less<>> all;
    SourceManager sources;
    for (const EmbeddedFile &file : targetFiles()) {
      if (!file.name.ends_with(tuningSuffix))
        continue;
      // The file is part of the program: an error in it is a bug.
      auto database = cantFail(TuningDatabase::parse(sources.add(file.name, file.text.str())), "graphs/targets");
      all.insert_or_assign(database.target, std::move(database));
    }
    return all;
  }();
  auto it = databases.find(target);
  return it == databases.end() ? nullptr : &it->second;
}

Expected<TuningDatabase> openTuning(StringRef name, StringRef target, SourceManager &sources) {
  TuningDatabase none;
  none.target = target.str();
  if (name == "none")
    return none;
  if (name == "shipped") {
    const TuningDatabase *shipped = shippedTuning(target);
    return shipped ? *shipped : none;
  }
  Expected<const SourceFile *> file = sources.open(name);
  if (!file)
    return file.takeError();
  Expected<TuningDatabase> database = TuningDatabase::parse(*file);
  if (database && database->target != target)
    return makeFileError(name, "expected measurements for " + target + ", got " + database->target);
  return database;
}

} // namespace kiln
