// Reads functions of a plan: their tensors, steps and launches.
#include "plan/FunctionReader.h"

namespace kiln {

static Error readTensorFields(Fields &fields, PlanTensor &tensor) {
  return chain([&] { return fields.text("name", tensor.name); }, [&] { return fields.dtype("dtype", tensor.dtype); },
               [&] { return fields.exprs("shape", tensor.shape); });
}

Error readTensor(const ConfigValue &table, PlanTensor &tensor) {
  Fields fields(table, "tensor");
  return chain([&] { return readTensorFields(fields, tensor); }, [&] { return fields.close(); });
}

static Error readBuffer(const ConfigValue &table, PlanBuffer &buffer) {
  Fields fields(table, "buffers");
  std::vector<int64_t> live;
  if (Error error = chain([&] { return readTensorFields(fields, buffer.tensor); },
                          [&] { return fields.expr("offset", buffer.offset); },
                          [&] { return fields.integers("live", live); }, [&] { return fields.close(); }))
    return error;
  if (live.size() != 2 || live[1] < live[0])
    return configError("live", *table.find("live"), "[first, last] steps");
  buffer.first = live[0];
  buffer.last = live[1];
  return Error::success();
}

static Error readConstants(Fields &fields, std::vector<PlanConstant> &constants) {
  const ConfigValue *table = nullptr;
  if (Error error = fields.optionalTable("constants", table); error || !table)
    return error;
  Fields members(*table, "constants");
  for (const ConfigMember &member : table->table) {
    constants.push_back({member.key, ""});
    if (Error error = members.text(member.key, constants.back().weight))
      return error;
  }
  return Error::success();
}

static Error readLaunch(Fields &fields, const ConfigValue &table, PlanLaunch &launch) {
  SmallVector<Expr, 4> grid;
  if (Error error =
          chain([&] { return fields.text("kernel", launch.kernel); }, [&] { return fields.exprs("grid", grid); },
                [&] { return fields.integer("threads", launch.threads, 1); },
                [&] { return fields.optionalInteger("dynamic_shared", launch.dynamicShared); },
                [&] { return fields.flag("cooperative", launch.cooperative); },
                [&] { return fields.optionalInteger("half_blocks", launch.halfBlocks, 1); },
                [&] { return readConstants(fields, launch.constants); }))
    return error;
  if (grid.size() != 3)
    return configError("grid", *table.find("grid"), "three extents");
  std::copy(grid.begin(), grid.end(), launch.grid.begin());
  return Error::success();
}

static Error readVariant(const ConfigValue &table, PlanVariant &variant) {
  Fields fields(table, "variants");
  return chain(
      [&] { return fields.optionalInteger("tokens", variant.tokens, 1); },
      [&] { return fields.integer("rows", variant.rows, 1); },
      [&] { return readLaunch(fields, table, variant.launch); },
      [&] { return table.find("arguments") ? fields.texts("arguments", variant.launch.arguments) : Error::success(); },
      [&] { return fields.close(); });
}

static Error readWorkspace(Fields &fields, std::optional<PlanWorkspace> &workspace) {
  const ConfigValue *table = nullptr;
  if (Error error = fields.optionalTable("workspace", table); error || !table)
    return error;
  Fields members(*table, "workspace");
  PlanWorkspace &read = workspace.emplace();
  return chain([&] { return members.expr("offset", read.offset); }, [&] { return members.expr("bytes", read.bytes); },
               [&] { return members.close(); });
}

static Error readArguments(Fields &fields, PlanStep &step) {
  if (Error error = fields.texts("arguments", step.launch.arguments))
    return error;
  for (PlanVariant &variant : step.variants)
    if (variant.launch.arguments.empty())
      variant.launch.arguments = step.launch.arguments;
  return Error::success();
}

/// Reads a kernel and its launch, or a library step.
static Error readWork(Fields &fields, const ConfigValue &table, PlanStep &step) {
  if (!table.find("library"))
    return chain([&] { return readLaunch(fields, table, step.launch); },
                 [&] { return fields.optionalEach("variants", step.variants, readVariant); },
                 [&] { return step.variants.empty() ? Error::success() : fields.expr("rows", step.rows); },
                 [&] { return step.hasTokenBounds() ? fields.text("tokens", step.tokens) : Error::success(); });
  PlanMatmul &matmul = step.matmul.emplace();
  return chain(
      [&] { return fields.text("library", step.launch.kernel); }, [&] { return fields.expr("rows", matmul.rows); },
      [&] { return fields.expr("cols", matmul.cols); }, [&] { return fields.expr("depth", matmul.depth); },
      [&] { return table.find("batch") ? fields.expr("batch", matmul.batch) : Error::success(); },
      [&] { return fields.flag("untransposed", matmul.untransposed); },
      [&] { return fields.dtype("dtype", matmul.dtype); },
      [&] {
        return table.find("out") ? fields.dtype("out", matmul.out) : (matmul.out = matmul.dtype, Error::success());
      },
      [&] { return fields.flag("bias", matmul.bias); }, [&] { return fields.flag("gelu", matmul.gelu); },
      [&] { return fields.flag("residual", matmul.residual); });
}

static Error readStep(const ConfigValue &table, PlanStep &step) {
  Fields fields(table, "steps");
  return chain([&] { return readWork(fields, table, step); }, [&] { return readArguments(fields, step); },
               [&] { return readWorkspace(fields, step.workspace); },
               [&] { return fields.optionalExpr("counters", step.counters); },
               [&] { return fields.optionalInteger("mailboxes", step.mailboxes, 1); },
               [&] { return fields.optionalInteger("inbox", step.inbox, 1); },
               [&] { return fields.expr("bytes", step.bytes); }, [&] { return fields.expr("flops", step.flops); },
               [&] { return fields.text("location", step.location); }, [&] { return fields.close(); });
}

Error readFunction(const ConfigValue &table, PlanFunction &function) {
  Fields fields(table, "functions");
  return chain([&] { return fields.text("name", function.name); },
               [&] { return fields.optionalInteger("sequences", function.sequences, 1); },
               [&] { return fields.expr("arena", function.arena); }, [&] { return fields.expr("live", function.live); },
               [&] { return fields.texts("results", function.results); },
               [&] { return fields.each("arguments", function.arguments, readTensor); },
               [&] { return fields.each("buffers", function.buffers, readBuffer); },
               [&] { return fields.each("steps", function.steps, readStep); }, [&] { return fields.close(); });
}

} // namespace kiln
