#include "plan/FunctionReader.h"
#include "plan/Plan.h"
#include "plan/PlanChecks.h"
#include "support/Diagnostic.h"
#include "support/Version.h"
#include "support/files/StagedDirectory.h"
#include "support/model/TargetName.h"
#include "support/text/ConfigFields.h"

namespace kiln {

namespace {

/// Reads tables field by field, and stops at the first error. Every table is closed, so that a key that this version
/// does not know is an error, too.
class PlanReader {
public:
  Error read(const ConfigValue &root, Plan &plan) {
    Fields fields(root, "plan");
    int64_t format = 0;
    if (Error error = fields.integer("format", format))
      return error;
    // The rest of a plan of another version has no meaning here.
    if (format != planFormatVersion)
      return makeError(root.find("format")->loc, "format: expected a plan of version " + Twine(planFormatVersion) +
                                                     ", got version " + Twine(format) + "; compile the model again");
    if (Error error = readCompiler(fields, root, plan.compilerVersion))
      return error;
    ConfigValue const *model = nullptr, *dims = nullptr, *origin = nullptr, *entries = nullptr;
    std::string dtype;
    return chain(
        [&] { return fields.text("nvrtc", plan.nvrtcVersion); },
        [&] { return fields.text("source_hash", plan.sourceHash); }, [&] { return fields.text("target", plan.target); },
        [&] { return root.find("strategy") ? fields.text("strategy", plan.strategy) : Error::success(); },
        [&] { return fields.optionalInteger("batch_invariant", plan.batchInvariant, 1); },
        [&] { return fields.optionalInteger("ranks", plan.ranks, 1, mostRanks); },
        [&] { return fields.optionalInteger("halved_rows", plan.halvedRows, 2); },
        [&] { return fields.flag("step_by_step", plan.stepByStep); },
        [&] { return fields.flag("weights_first", plan.weightsFirst); },
        [&] { return fields.flag("serial", plan.serial); }, [&] { return fields.texts("cubins", plan.cubins); },
        [&] { return root.find("ptx") ? fields.texts("ptx", plan.ptx) : Error::success(); },
        [&] { return fields.dtype("dtype", plan.dtype); }, [&] { return fields.table("model", model); },
        [&] { return readModel(*model, plan.model); }, [&] { return fields.table("dims", dims); },
        [&] { return readDims(*dims, plan.dims); }, [&] { return fields.optionalTable("origin", origin); },
        [&] { return origin ? readOrigin(*origin, plan.origin.emplace()) : Error::success(); },
        [&] { return fields.optionalTable("entries", entries); },
        [&] { return entries ? readEntries(*entries, plan.entries) : Error::success(); },
        [&] { return fields.optionalEach("weights", plan.weights, readWeight); }, [&] { return setRanks(plan); },
        [&] { return fields.optionalEach("states", plan.states, readTensor); },
        [&] { return fields.optionalEach("kernels", plan.kernels, readKernel); },
        [&] { return fields.each("functions", plan.functions, readFunction); }, [&] { return fields.close(); });
  }

private:
  /// Kernels include templates of the program that runs them, so its version must match.
  static Error readCompiler(Fields &fields, const ConfigValue &root, std::string &version) {
    if (Error error = fields.text("compiler", version))
      return error;
    if (version == compilerVersion)
      return Error::success();
    return makeError(root.find("compiler")->loc, Twine("compiler: expected a plan of Kiln ") + compilerVersion +
                                                     ", got one of Kiln " + version + "; compile the model again");
  }

  static Error readModel(const ConfigValue &table, PlanModelInfo &model) {
    Fields fields(table, "model");
    return chain([&] { return fields.text("name", model.name); },
                 [&] { return fields.integer("context", model.context, 1, INT32_MAX); },
                 [&] { return fields.integer("vocabulary", model.vocabulary, 1, INT32_MAX); },
                 [&] { return fields.integer("layers", model.layers, 1, INT32_MAX); },
                 [&] { return fields.integers("eos", model.eosTokens); }, [&] { return fields.close(); });
  }

  static Error readDims(const ConfigValue &table, std::vector<PlanDim> &dims) {
    Fields fields(table, "dims");
    for (const ConfigMember &member : table.table) {
      std::vector<int64_t> bounds;
      if (Error error = fields.integers(member.key, bounds, 1, INT32_MAX))
        return error;
      if (bounds.size() != 2)
        return makeError(member.value.loc,
                         member.key + ": expected bounds [low, high], got " + Twine(bounds.size()) + " numbers");
      if (bounds[1] < bounds[0])
        return makeError(member.value.loc, member.key + ": expected bounds [low, high] with low <= high, got [" +
                                               Twine(bounds[0]) + ", " + Twine(bounds[1]) + "]");
      dims.push_back({member.key, bounds[0], bounds[1]});
    }
    return Error::success();
  }

  static Error readOrigin(const ConfigValue &table, PlanOrigin &origin) {
    Fields fields(table, "origin");
    if (Error error = fields.text("path", origin.path))
      return error;
    if (origin.path.empty())
      return configError("path", *table.find("path"), "the path of a model");
    for (auto [key, digest] : {std::pair("weights", &origin.weights), {"vocabulary", &origin.vocabulary}}) {
      const ConfigValue *value = table.find(key);
      if (!value)
        continue;
      if (Error error = fields.text(key, *digest))
        return error;
      if (digest->size() != 64 || !llvm::all_of(*digest, [](char c) { return llvm::isHexDigit(c); }))
        return configError(key, *value, "the 64 hexadecimal digits of a SHA-256");
    }
    return fields.close();
  }

  static Error readEntries(const ConfigValue &table, PlanEntries &entries) {
    Fields fields(table, "entries");
    Error error = chain([&] { return fields.text("batch", entries.batch); },
                        [&] { return fields.text("tokens", entries.tokens); });
    entries.forEach([&](Entry entry, auto &names) {
      if (!error)
        error = readEntry(fields, entry, names);
    });
    return error ? std::move(error) : fields.close();
  }

  template <class Names> static Error readEntry(Fields &entries, Entry entry, std::optional<Names> &names) {
    const ConfigValue *table = nullptr;
    if (Error error = entries.optionalTable(entryName(entry), table))
      return error;
    if (!table)
      return Error::success();
    Fields fields(*table, entryName(entry));
    for (auto [key, name] : namesOf(names.emplace()))
      if (Error error = fields.text(key, *name))
        return error;
    return fields.close();
  }

  static Error readRecipeSteps(Fields &fields, WeightRecipe &recipe) {
    if (fields.find("scale"))
      if (Error error = fields.text("scale", recipe.scale.emplace()))
        return error;
    if (fields.find("sum"))
      if (Error error = fields.dtype("sum", recipe.sum.emplace()))
        return error;
    const ConfigValue *table = nullptr;
    if (Error error = fields.optionalTable("add", table); error || !table)
      return error;
    WeightRecipe::Product &product = recipe.add.emplace();
    Fields parts(*table, "add");
    std::vector<int64_t> shape;
    Error error = chain([&] { return parts.text("vector", product.vector); },
                        [&] { return parts.text("matrix", product.matrix); },
                        [&] { return parts.integers("matrix_shape", shape, 1); }, [&] { return parts.close(); });
    product.matrixShape.assign(shape.begin(), shape.end());
    return error;
  }

  /// Splits are among the plan's ranks.
  static Error setRanks(Plan &plan) {
    for (PlanWeight &weight : plan.weights)
      if (weight.recipe.split)
        weight.recipe.split->ranks = plan.ranks;
    return Error::success();
  }

  static Error readSplit(Fields &fields, WeightRecipe &recipe) {
    const ConfigValue *table = nullptr;
    if (Error error = fields.optionalTable("split", table); error || !table)
      return error;
    RankSplit &split = recipe.split.emplace();
    Fields parts(*table, "split");
    return chain([&] { return parts.flag("rows", split.ofRows); },
                 [&] { return parts.integer("unit", split.unit, 1, INT32_MAX); },
                 [&] { return parts.integer("parts", split.parts, 1, INT32_MAX); }, [&] { return parts.close(); });
  }

  static Error readWeight(const ConfigValue &table, PlanWeight &weight) {
    Fields fields(table, "weights");
    WeightRecipe &recipe = weight.recipe;
    std::vector<int64_t> shape, sourceShape;
    Error error = chain(
        [&] { return fields.text("name", weight.name); }, [&] { return fields.dtype("dtype", recipe.dtype); },
        [&] { return fields.integers("shape", shape, 1); }, [&] { return fields.text("source", recipe.source); },
        [&] { return fields.integers("source_shape", sourceShape, 1); }, [&] { return readSplit(fields, recipe); },
        [&] { return readRecipeSteps(fields, recipe); }, [&] { return fields.flag("transpose", recipe.transpose); },
        [&] { return fields.flag("pad", recipe.pad); }, [&] { return fields.close(); });
    recipe.shape.assign(shape.begin(), shape.end());
    recipe.sourceShape.assign(sourceShape.begin(), sourceShape.end());
    return error;
  }

  static Error readKernel(const ConfigValue &table, PlanKernel &kernel) {
    Fields fields(table, "kernels");
    const ConfigValue *resources = nullptr;
    if (Error error = chain(
            [&] { return fields.text("name", kernel.name); }, [&] { return fields.text("family", kernel.family); },
            [&] { return fields.text("title", kernel.title); }, [&] { return fields.dtype("dtype", kernel.dtype); },
            [&] { return fields.text("extents", kernel.extents); },
            [&] { return fields.optionalInteger("rows", kernel.rows, 1); },
            [&] { return fields.optionalInteger("number", kernel.number, 1); },
            [&] { return fields.optionalInteger("cluster", kernel.cluster, 1, maxClusterBlocks); },
            [&] { return fields.find("phases") ? fields.texts("phases", kernel.phases) : Error::success(); },
            [&] { return fields.optionalEach("ops", kernel.ops, readKernelOp); },
            [&] { return fields.optionalEach("maps", kernel.maps, readMap); },
            [&] { return fields.optionalEach("arrays", kernel.arrays, readArray); },
            [&] { return fields.optionalTable("resources", resources); }, [&] { return fields.close(); }))
      return error;
    return resources ? readResources(*resources, kernel) : Error::success();
  }

  static Error readKernelOp(const ConfigValue &table, PlanKernelOp &op) {
    Fields fields(table, "ops");
    if (Error error = chain([&] { return fields.text("value", op.value); }, [&] { return fields.text("op", op.op); },
                            [&] { return fields.integers("lines", op.lines, 1); }, [&] { return fields.close(); }))
      return error;
    if (std::adjacent_find(op.lines.begin(), op.lines.end(), std::greater_equal<>()) != op.lines.end())
      return configError("lines", *table.find("lines"), "lines of the kernel's source in rising order");
    return Error::success();
  }

  static Error readMap(const ConfigValue &table, PlanTensorMap &map) {
    Fields fields(table, "maps");
    return chain([&] { return fields.integer("argument", map.argument); },
                 [&] { return fields.dtype("dtype", map.dtype); }, [&] { return fields.exprs("extents", map.extents); },
                 [&] { return fields.exprs("strides", map.strides); }, [&] { return fields.exprs("box", map.box); },
                 [&] { return fields.close(); });
  }

  static Error readArray(const ConfigValue &table, PlanArray &array) {
    Fields fields(table, "arrays");
    return chain([&] { return fields.integer("argument", array.argument); },
                 [&] { return fields.integer("size", array.size, 1); }, [&] { return fields.close(); });
  }

  static Error readResources(const ConfigValue &table, PlanKernel &kernel) {
    for (const ConfigMember &member : table.table) {
      if (member.value.kind != ConfigValue::Kind::Table)
        return configError(member.key, member.value, "a table");
      KernelResources &use = kernel.resources[member.key];
      Fields numbers(member.value, "resources");
      if (Error error =
              chain([&] { return numbers.integer("registers", use.registers); },
                    [&] { return numbers.integer("shared", use.sharedBytes); },
                    [&] { return numbers.integer("stack", use.stackBytes); },
                    [&] { return numbers.integer("spill_stores", use.spillStores); },
                    [&] { return numbers.integer("spill_loads", use.spillLoads); }, [&] { return numbers.close(); }))
        return error;
    }
    return Error::success();
  }
};

} // namespace

static Expected<Plan> parsePlan(const SourceFile *source, std::optional<StringRef> directory) {
  Expected<ConfigValue> root = parseToml(source);
  if (!root)
    return root.takeError();
  Plan plan;
  if (Error error = PlanReader().read(*root, plan))
    return error;
  if (Error error = checkPlan(plan, *root, directory))
    return error;
  return plan;
}

Expected<Plan> parsePlan(const SourceFile *source) { return parsePlan(source, std::nullopt); }

Expected<Plan> readPlan(StringRef directory) {
  SmallString<128> file(directory);
  llvm::sys::path::append(file, "plan.toml");
  if (!llvm::sys::fs::exists(file))
    restoreReplaced(directory);
  SourceManager sources;
  Expected<const SourceFile *> source = sources.open(file);
  return source ? parsePlan(*source, directory) : source.takeError();
}

} // namespace kiln
