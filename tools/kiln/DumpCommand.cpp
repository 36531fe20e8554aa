#include "tools/kiln/Commands.h"

#include "codegen/Generate.h"
#include "nvrtc/Nvrtc.h"
#include "plan/Plan.h"
#include "support/Diagnostic.h"
#include "support/files/File.h"
#include "support/files/StagedDirectory.h"
#include "support/process/Process.h"
#include "support/text/Nearest.h"
#include "templates/TemplateFiles.h"

namespace kiln {

namespace {

/// Collects what a dump shows as files by relative name.
class Dumper {
public:
  Dumper(const DumpCommand &command, const Plan &plan) : command(command), plan(plan) {}

  Error addIr() {
    for (StringRef stage : {"graph", "fused", "plan"})
      if (Error error = addFile(("ir/" + stage + ".kiln").str()))
        return error;
    return Error::success();
  }

  Error addPlan() { return addFile("plan.toml"); }

  /// Files get the contents of their includes, so that each stands alone; on standard output, a kernel stays as
  /// generated.
  Error addCuda(bool areSelfContained) {
    return forEachKernel([&](const KernelSource &source) -> Error {
      files["cuda/" + source.fileName()] = areSelfContained ? selfContained(source) : source.text;
      return Error::success();
    });
  }

  Error addPtx() {
    Expected<const Nvrtc *> nvrtc = Nvrtc::get();
    if (!nvrtc)
      return nvrtc.takeError();
    return forEachKernel([&](const KernelSource &source) -> Error {
      auto compiled = (*nvrtc)->compile("kernels/" + source.fileName(), source.text, plan.target, templateFiles());
      if (!compiled)
        return compiled.takeError();
      files["ptx/" + source.name + ".ptx"] = compiled->ptx;
      return Error::success();
    });
  }

  Error addResources() {
    std::string text = "| kernel | target | registers | shared bytes | stack | spill stores | spill loads |\n"
                       "|---|---|---|---|---|---|---|\n";
    raw_string_ostream os(text);
    for (const PlanKernel &kernel : plan.kernels)
      for (const auto &[target, use] : kernel.resources)
        if (isWanted(kernel))
          os << "| " << kernel.name << " | " << target << " | " << use.registers << " | " << use.sharedBytes << " | "
             << use.stackBytes << " | " << use.spillStores << " | " << use.spillLoads << " |\n";
    files["resources.md"] = text;
    return Error::success();
  }

  std::map<std::string, std::string> files;

private:
  bool isWanted(const PlanKernel &kernel) const { return command.kernel.empty() || kernel.name == command.kernel; }

  Error addFile(const std::string &name) {
    Expected<std::string> text = readFile(command.plan + "/" + name);
    if (!text)
      return text.takeError();
    files[name] = std::move(*text);
    return Error::success();
  }

  Error forEachKernel(function_ref<Error(const KernelSource &)> visit) {
    for (const PlanKernel &kernel : plan.kernels) {
      if (!isWanted(kernel))
        continue;
      KernelSource source{kernel.name, {}};
      Expected<std::string> text = readFile(command.plan + "/kernels/" + source.fileName());
      if (!text)
        return text.takeError();
      source.text = std::move(*text);
      if (Error error = visit(source))
        return error;
    }
    return Error::success();
  }

  const DumpCommand &command;
  const Plan &plan;
};

} // namespace

Error run(const DumpCommand &command) {
  Expected<Plan> plan = readPlan(command.plan);
  if (!plan)
    return plan.takeError();
  if (!command.kernel.empty() && !plan->findKernel(command.kernel)) {
    std::vector<StringRef> names;
    for (const PlanKernel &kernel : plan->kernels)
      names.push_back(kernel.name);
    return makeFileError(command.plan, "no kernel '" + command.kernel + "'; there are " + llvm::join(names, ", ") +
                                           didYouMean(command.kernel, names));
  }
  Dumper dumper(command, *plan);
  bool toFiles = !command.output.empty();
  std::string what = command.what.empty() && !toFiles ? "resources" : command.what;
  auto wants = [&](StringRef part) { return what.empty() || what == part; };
  // IR and plan.toml cover all kernels: they are left out if one kernel is asked for.
  auto wantsWhole = [&](StringRef part) { return what == part || (what.empty() && command.kernel.empty()); };
  if (wantsWhole("ir"))
    if (Error error = dumper.addIr())
      return error;
  if (wantsWhole("plan"))
    if (Error error = dumper.addPlan())
      return error;
  if (wants("cuda"))
    if (Error error = dumper.addCuda(toFiles))
      return error;
  if (wants("ptx"))
    if (Error error = dumper.addPtx())
      return error;
  if (wants("resources"))
    if (Error error = dumper.addResources())
      return error;
  if (!toFiles) {
    for (const auto &[name, text] : dumper.files)
      standardOutput() << (dumper.files.size() > 1 ? "// ---- " + name + " ----\n" : "") << text;
    return Error::success();
  }
  return writeFiles(command.output, dumper.files);
}

} // namespace kiln
