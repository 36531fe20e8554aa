#include "api/Json.h"

namespace kiln::api {

namespace {

class PlanWriter {
public:
  PlanWriter(json::OStream &out, const ReportedPlan &reported) : out(out), reported(reported), plan(reported.plan) {}

  void write() {
    out.object([&] {
      writeFacts();
      out.attributeArray("kernels", [&] {
        for (const PlanKernel &kernel : plan.kernels)
          write(kernel);
      });
      out.attributeArray("functions", [&] {
        for (const FunctionUse &use : reported.functions)
          write(use);
      });
    });
  }

private:
  void writeFacts() {
    out.attribute("name", jsonText(plan.model.name));
    out.attribute("context", plan.model.context);
    out.attribute("vocabulary", plan.model.vocabulary);
    out.attribute("layers", plan.model.layers);
    out.attribute("eos", json::Array(plan.model.eosTokens));
    out.attribute("compiler", jsonText(plan.compilerVersion));
    out.attribute("target", jsonText(plan.target));
    out.attribute("dtype", dtypeName(plan.dtype));
    out.attribute("strategy", jsonText(plan.strategy));
    out.attribute("batch_invariant", plan.batchInvariant);
    out.attribute("cubins", json::Array(plan.cubins));
    out.attributeObject("dims", [&] {
      for (const PlanDim &dim : plan.dims)
        out.attribute(json::fixUTF8(dim.name), json::Array{dim.min, dim.max});
    });
  }

  void write(const PlanKernel &kernel) {
    out.object([&] {
      out.attribute("name", jsonText(kernel.name));
      out.attribute("family", jsonText(kernel.family));
      out.attribute("title", jsonText(kernel.title));
      out.attribute("cuda", jsonText(reported.kernels.at(kernel.name)));
      out.attributeArray("ops", [&] {
        for (const PlanKernelOp &op : kernel.ops)
          out.object([&] {
            out.attribute("value", jsonText(op.value));
            out.attribute("op", jsonText(op.op));
            out.attribute("lines", json::Array(op.lines));
          });
      });
      out.attributeObject("resources", [&] {
        for (const auto &[target, resources] : kernel.resources)
          out.attributeObject(json::fixUTF8(target), [&, &resources = resources] { writeResources(resources); });
      });
    });
  }

  void writeResources(const KernelResources &resources) {
    out.attribute("registers", resources.registers);
    out.attribute("shared_bytes", resources.sharedBytes);
    out.attribute("stack_bytes", resources.stackBytes);
    out.attribute("spill_stores", resources.spillStores);
    out.attribute("spill_loads", resources.spillLoads);
  }

  void write(const FunctionUse &use) {
    const PlanFunction &function = *use.function;
    out.object([&] {
      out.attribute("name", jsonText(function.name));
      out.attributeArray("arguments", [&] {
        for (const PlanTensor &argument : function.arguments)
          write(argument);
      });
      out.attribute("results", json::Array(function.results));
      out.attribute("arena_bytes", jsonExpr(function.arena));
      out.attributeArray("steps", [&] {
        for (const PlanStep &step : function.steps)
          write(step);
      });
      out.attributeObject("cost", [&] { writeCost(use); });
    });
  }

  void write(const PlanTensor &tensor) {
    out.object([&] {
      out.attribute("name", jsonText(tensor.name));
      out.attribute("dtype", dtypeName(tensor.dtype));
      out.attributeArray("shape", [&] {
        for (const Expr &extent : tensor.shape)
          out.value(jsonExpr(extent));
      });
    });
  }

  void write(const PlanStep &step) {
    out.object([&] {
      out.attribute("location", jsonText(step.location));
      out.attribute("bytes", jsonExpr(step.bytes));
      out.attribute("flops", jsonExpr(step.flops));
      out.attributeObject("launch", [&] { writeLaunch(step.launch); });
      out.attributeArray("variants", [&] {
        for (const PlanVariant &variant : step.variants)
          out.object([&] {
            out.attribute("rows", variant.rows);
            out.attribute("tokens", variant.tokens);
            writeLaunch(variant.launch);
          });
      });
    });
  }

  void writeLaunch(const PlanLaunch &launch) {
    out.attribute("kernel", jsonText(launch.kernel));
    out.attributeArray("grid", [&] {
      for (const Expr &extent : launch.grid)
        out.value(jsonExpr(extent));
    });
    out.attribute("threads", launch.threads);
    out.attribute("dynamic_shared_bytes", launch.dynamicShared);
    out.attribute("arguments", json::Array(launch.arguments));
  }

  /// What one call costs.
  void writeCost(const FunctionUse &use) {
    out.attribute("label", jsonText(use.label));
    out.attributeObject("dims", [&] {
      for (const auto &[name, value] : use.dims)
        out.attribute(json::fixUTF8(name), value);
    });
    writeUse(use.total);
    out.attributeArray("kernels", [&] {
      for (const KernelUse &kernel : use.kernels)
        out.object([&] {
          out.attribute("kernel", jsonText(kernel.count.what));
          writeUse(kernel);
        });
    });
  }

  void writeUse(const KernelUse &use) {
    out.attribute("launches", use.count.launches);
    out.attribute("bytes", use.count.cost.bytes);
    out.attribute("flops", use.count.cost.flops);
    out.attribute("limit_seconds", use.rooflineSeconds);
    out.attribute("seconds", use.seconds ? json::Value(*use.seconds) : json::Value(nullptr));
  }

  json::OStream &out;
  const ReportedPlan &reported;
  const Plan &plan;
};

} // namespace

void writeJson(json::OStream &out, const ReportedPlan &reported) { PlanWriter(out, reported).write(); }

} // namespace kiln::api
