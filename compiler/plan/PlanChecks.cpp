#include "plan/PlanChecks.h"

#include "support/Diagnostic.h"

namespace kiln {

namespace {

class PlanChecker {
public:
  PlanChecker(const Plan &plan, StringRef directory, StringRef file) : plan(plan), directory(directory), file(file) {
    for (const PlanDim &dim : plan.dims) {
      largest[dim.name] = dim.max;
      smallest[dim.name] = dim.min;
    }
  }

  Error check() {
    if (Error error = checkGlobals())
      return error;
    for (const PlanFunction &function : plan.functions)
      if (Error error = checkFunction(function))
        return error;
    return Error::success();
  }

private:
  Error fail(const Twine &message) const { return makeFileError(file, message); }

  Error checkGlobals() {
    for (const PlanWeight &weight : plan.weights)
      if (!globals.insert(weight.name).second)
        return fail("'" + weight.name + "' is defined twice");
    for (const PlanTensor &state : plan.states) {
      if (!globals.insert(state.name).second)
        return fail("'" + state.name + "' is defined twice");
      if (Error error = checkFormula("state '" + state.name + "'", state.bytes()))
        return error;
    }
    for (const PlanKernel &kernel : plan.kernels) {
      bool isName = !kernel.name.empty() && llvm::all_of(kernel.name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
      if (!isName)
        return fail("kernel '" + kernel.name + "': expected an identifier");
      if (!kernels.insert(kernel.name).second)
        return fail("kernel '" + kernel.name + "' is defined twice");
      SmallString<128> source(directory);
      llvm::sys::path::append(source, "kernels", kernel.name + ".cu");
      if (!llvm::sys::fs::exists(source))
        return fail("kernel '" + kernel.name + "': its source " + source + " is missing");
    }
    return Error::success();
  }

  /// A formula must have a value at both ends of the dims' bounds; it grows with them, so it has one between.
  Error checkFormula(const Twine &what, const Expr &expr) const {
    for (const DimBinding *dims : {&smallest, &largest})
      if (Expected<int64_t> value = expr.evaluate(*dims); !value)
        return fail(what + ": " + takeDiagnostics(value.takeError()).front().message);
    return Error::success();
  }

  int64_t atLargest(const Expr &expr) const { return cantFail(expr.evaluate(largest), "checked before"); }
  int64_t atSmallest(const Expr &expr) const { return cantFail(expr.evaluate(smallest), "checked before"); }

  Error checkFunction(const PlanFunction &function) {
    std::string where = "function '" + function.name + "'";
    if (!functions.insert(function.name).second)
      return fail(where + " is defined twice");
    std::set<std::string> memory(globals.begin(), globals.end());
    for (const PlanTensor &argument : function.arguments) {
      if (!memory.insert(argument.name).second)
        return fail(where + ": '" + argument.name + "' is defined twice");
      if (Error error = checkFormula(where + ", argument '" + argument.name + "'", argument.bytes()))
        return error;
    }
    for (const Expr &expr : {function.arena, function.live})
      if (Error error = checkFormula(where, expr))
        return error;
    std::set<std::string> buffers;
    for (const PlanBuffer &buffer : function.buffers) {
      const std::string &name = buffer.tensor.name;
      if (!memory.insert(name).second)
        return fail(where + ": '" + name + "' is defined twice");
      buffers.insert(name);
      for (const Expr &expr : {buffer.offset, buffer.tensor.bytes(), buffer.offset + buffer.tensor.bytes()})
        if (Error error = checkFormula(where + ", buffer '" + name + "'", expr))
          return error;
    }
    for (const std::string &result : function.results)
      if (!buffers.contains(result))
        return fail(where + ": result '" + result + "' is no buffer");
    if (Error error = checkArena(function))
      return error;
    for (const PlanStep &step : function.steps)
      if (Error error = checkStep(where, step, memory))
        return error;
    return Error::success();
  }

  /// Buffers lie inside the arena, and those that are live together lie apart, at both ends of the dims' bounds.
  Error checkArena(const PlanFunction &function) const {
    std::string where = "function '" + function.name + "'";
    for (const DimBinding *dims : {&smallest, &largest}) {
      auto at = [&](const Expr &expr) { return cantFail(expr.evaluate(*dims), "checked before"); };
      int64_t arena = at(function.arena);
      std::vector<std::pair<int64_t, int64_t>> places;
      for (const PlanBuffer &buffer : function.buffers) {
        int64_t begin = at(buffer.offset), end = begin + at(buffer.tensor.bytes());
        if (end > arena)
          return fail(where + ": buffer '" + buffer.tensor.name + "' reaches past the arena");
        places.push_back({begin, end});
      }
      for (size_t i = 0; i < places.size(); ++i)
        for (size_t j = i + 1; j < places.size() && function.buffers[j].first <= function.buffers[i].last; ++j) {
          bool apart = places[i].second <= places[j].first || places[j].second <= places[i].first ||
                       function.buffers[j].last < function.buffers[i].first;
          if (!apart)
            return fail(where + ": buffers '" + function.buffers[i].tensor.name + "' and '" +
                        function.buffers[j].tensor.name + "' overlap while both are live");
        }
    }
    return Error::success();
  }

  Error checkLaunch(const std::string &where, const PlanLaunch &launch) const {
    if (!kernels.contains(launch.kernel))
      return fail(where + ": no kernel '" + launch.kernel + "'");
    if (launch.threads > 1024)
      return fail(where + ": expected at most 1024 threads, got " + Twine(launch.threads));
    for (const Expr &extent : launch.grid)
      if (Error error = checkFormula(where, extent))
        return error;
    return Error::success();
  }

  Error checkStep(const std::string &function, const PlanStep &step, const std::set<std::string> &memory) const {
    std::string where = function + ", step '" + step.launch.kernel + "'";
    if (Error error = checkLaunch(where, step.launch))
      return error;
    int64_t batch = 0;
    for (const PlanVariant &variant : step.variants) {
      if (variant.batch <= batch)
        return fail(where + ": expected variants in rising order of their batch");
      batch = variant.batch;
      if (Error error = checkLaunch(where, variant.launch))
        return error;
    }
    for (const Expr &expr : {step.bytes, step.flops, step.counters, step.workspace.value_or(Expr(0))})
      if (Error error = checkFormula(where, expr))
        return error;
    for (const std::string &argument : step.arguments) {
      StringRef name = argument;
      bool isKnown = name.consume_front("%") ? memory.contains(name.str())
                                             : (name == "@workspace" && step.workspace) || name == "@counters" ||
                                                   largest.count(name.str());
      if (!isKnown)
        return fail(where + ": argument '" + argument + "' is not defined");
    }
    return Error::success();
  }

  const Plan &plan;
  StringRef directory, file;
  DimBinding largest, smallest;
  std::set<std::string> globals, kernels, functions;
};

} // namespace

Error checkPlan(const Plan &plan, StringRef directory, StringRef file) {
  return PlanChecker(plan, directory, file).check();
}

} // namespace kiln
