#include "kernels/Tuning.h"

#include "kernels/TargetFiles.h"
#include "ops/Region.h"
#include "support/Config.h"
#include "support/Diagnostic.h"

namespace kiln {

/// Attributes that change what an inner loop does.
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

static Expected<const ConfigValue *> require(const ConfigValue &table, StringRef key, ConfigValue::Kind kind,
                                             StringRef what) {
  const ConfigValue *value = table.find(key);
  if (!value)
    return makeError(table.loc, "missing key '" + key + "'");
  bool fits = value->kind == kind || (kind == ConfigValue::Kind::Float && value->kind == ConfigValue::Kind::Int);
  if (!fits)
    return configError(key, *value, what);
  return value;
}

static Error refuseOthers(const ConfigValue &table, ArrayRef<StringRef> known) {
  for (const ConfigMember &member : table.table)
    if (!llvm::is_contained(known, member.key))
      return makeError(member.keyLoc, "unknown key '" + member.key + "': expected " + llvm::join(known, ", "));
  return Error::success();
}

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

static Expected<TunedChoice> readChoice(const ConfigValue &entry) {
  using Kind = ConfigValue::Kind;
  if (entry.kind != Kind::Table)
    return configError("choice", entry, "a table");
  if (Error error = refuseOthers(entry, {"problem", "rows", "kernel", "tile", "us", "model_us"}))
    return error;
  auto problem = require(entry, "problem", Kind::String, "a string");
  auto rows = require(entry, "rows", Kind::Int, "an integer");
  auto kernel = require(entry, "kernel", Kind::String, "the name of a kernel family");
  auto tile = require(entry, "tile", Kind::Table, "settings");
  auto us = require(entry, "us", Kind::Float, "microseconds");
  auto modelUs = require(entry, "model_us", Kind::Float, "microseconds");
  for (auto *value : {&problem, &rows, &kernel, &tile, &us, &modelUs})
    if (!*value) {
      Error error = value->takeError();
      for (auto *other : {&problem, &rows, &kernel, &tile, &us, &modelUs})
        if (other != value && !*other)
          llvm::consumeError(other->takeError());
      return error;
    }
  const KernelFamily *family = findKernelFamily((*kernel)->string);
  if (!family || family->form == KernelForm::Library)
    return configError("kernel", **kernel, "the name of a kernel family");
  Expected<Tile> settings = readTile(**tile);
  if (!settings)
    return settings.takeError();
  return TunedChoice{(*problem)->string,
                     (*rows)->integer,
                     {family, std::move(*settings)},
                     (*us)->real * 1e-6,
                     (*modelUs)->real * 1e-6};
}

Expected<TuningDatabase> TuningDatabase::parse(const SourceFile *file) {
  using Kind = ConfigValue::Kind;
  Expected<ConfigValue> root = parseToml(file);
  if (!root)
    return root.takeError();
  if (Error error = refuseOthers(*root, {"target", "device", "choice"}))
    return error;
  TuningDatabase database;
  for (auto [key, text] :
       {std::pair<StringRef, std::string *>{"target", &database.target}, {"device", &database.device}}) {
    auto value = require(*root, key, Kind::String, "a string");
    if (!value)
      return value.takeError();
    *text = (*value)->string;
  }
  if (Expected<const Target *> target = findTarget(database.target); !target)
    return target.takeError();
  const ConfigValue *list = root->find("choice");
  if (list && list->kind != Kind::Array)
    return configError("choice", *list, "an array of tables");
  if (!list)
    return database;
  for (const ConfigValue &entry : list->array) {
    Expected<TunedChoice> choice = readChoice(entry);
    if (!choice)
      return choice.takeError();
    if (database.find(choice->problem, choice->rows))
      return makeError(entry.loc, "expected each problem once, got " + choice->problem + " with " +
                                      Twine(choice->rows) + " rows again");
    database.set(std::move(*choice));
  }
  return database;
}

std::string TuningDatabase::str() const {
  std::string text = "# Written by kiln tune.\ntarget = \"" + target + "\"\ndevice = \"" + device + "\"\n";
  for (const auto &[key, entry] : choices)
    text += formatv("\n[[choice]]\nproblem = \"{0}\"\nrows = {1}\nkernel = \"{2}\"\ntile = {3}\nus = {4:F2}\n"
                    "model_us = {5:F2}\n",
                    entry.problem, entry.rows, entry.choice.family->name, Attribute(entry.choice.tile).str(),
                    entry.seconds * 1e6, entry.modelSeconds * 1e6)
                .str();
  return text;
}

const TunedChoice *TuningDatabase::find(StringRef problem, int64_t rows) const {
  auto it = choices.find({problem.str(), rows});
  return it == choices.end() ? nullptr : &it->second;
}

void TuningDatabase::set(TunedChoice choice) {
  std::pair<std::string, int64_t> key(choice.problem, choice.rows);
  choices.insert_or_assign(std::move(key), std::move(choice));
}

const TuningDatabase *shippedTuning(StringRef target) {
  static const std::map<std::string, TuningDatabase, std::less<>> databases = [] {
    std::map<std::string, TuningDatabase, std::less<>> all;
    SourceManager sources;
    for (const EmbeddedFile &file : targetFiles()) {
      if (!file.name.ends_with(tuningSuffix))
        continue;
      // A part of the program: what is wrong in it is a bug.
      auto database = cantFail(TuningDatabase::parse(sources.add(file.name, file.text.str())), "graphs/targets");
      all.insert_or_assign(database.target, std::move(database));
    }
    return all;
  }();
  auto it = databases.find(target);
  return it == databases.end() ? nullptr : &it->second;
}

} // namespace kiln
