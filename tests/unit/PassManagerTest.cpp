#include "IrSupport.h"

#include "passes/PassManager.h"

namespace kiln {
namespace {

//===----------------------------------------------------------------------===//
// Passes that do not occur in a pipeline
//===----------------------------------------------------------------------===//

Error dropReturns(Module &module, const PassOptions &) {
  for (const auto &function : module.functions)
    function->body.terminator()->erase();
  return Error::success();
}
const PassDef brokenPass = {
    .name = "drop-returns",
    .summary = "Makes ill-formed IR",
    .run = dropReturns,
    .options = {{"count", 1, "how many"}, {"how", Attribute::ident("fast"), "", {"fast", "slow"}}, {"all", false, ""}},
};

Error refuse(Module &module, const PassOptions &) { return makeError(module.loc, "refuse: expected another module"); }
const PassDef refusingPass = {.name = "refuse", .summary = "", .run = refuse};

Error rename(Module &module, const PassOptions &options) {
  module.name += "_" + std::to_string(options.getInt("count")) + options.getString("how").str();
  return Error::success();
}
const PassDef renamingPass = {
    .name = "rename",
    .summary = "",
    .run = rename,
    .options = {{"count", 1, ""}, {"how", Attribute::ident("fast"), "", {"fast", "slow"}}},
};

class PassManagerTest : public IrTest {
protected:
  void SetUp() override { parse("module @m {\n  func @f(%x: f32[4]) -> f32[4] {\n    return %x\n  }\n}\n"); }
  PassInvocation invoke(const PassDef &pass, AttributeMap options = {}) {
    return unwrap(makeInvocation(pass, options));
  }
};

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

TEST_F(PassManagerTest, RunsPassesInOrderWithTheirOptions) {
  std::string seen;
  PassInstrumentation instrumentation;
  instrumentation.before = [&](const PassInvocation &pass, Module &module) {
    seen += "before " + pass.str() + " " + module.name + "\n";
    return Error::success();
  };
  instrumentation.after = [&](const PassInvocation &pass, Module &module) {
    seen += "after " + pass.str() + " " + module.name + "\n";
    return Error::success();
  };
  PassInvocation passes[] = {invoke(renamingPass),
                             invoke(renamingPass, {{"count", 2}, {"how", Attribute::ident("slow")}})};
  expectSuccess(runPasses(*module, passes, instrumentation));
  EXPECT_EQ(seen, "before rename m\nafter rename m_1fast\n"
                  "before rename{count = 2, how = slow} m_1fast\nafter rename{count = 2, how = slow} m_1fast_2slow\n");
}

TEST_F(PassManagerTest, StopsAtAnError) {
  PassInvocation passes[] = {invoke(refusingPass), invoke(renamingPass)};
  EXPECT_EQ(messageOf(runPasses(*module, passes)), "test.kiln:1:1: error: refuse: expected another module\n");
  EXPECT_EQ(module->name, "m");

  PassInstrumentation instrumentation;
  instrumentation.before = [](const PassInvocation &, Module &) { return makeError("not now"); };
  EXPECT_EQ(messageOf(runPasses(*module, invoke(renamingPass), instrumentation)), "error: not now\n");
  EXPECT_EQ(module->name, "m");
  instrumentation.before = nullptr;
  instrumentation.after = [](const PassInvocation &, Module &) { return makeError("too late"); };
  EXPECT_EQ(messageOf(runPasses(*module, invoke(renamingPass), instrumentation)), "error: too late\n");
}

TEST_F(PassManagerTest, NamesThePassThatMadeIllFormedIr) {
  EXPECT_EQ(messageOf(runPasses(*module, invoke(brokenPass))),
            "error: pass drop-returns made ill-formed IR\ntest.kiln:2:8: error: @f: expected a return at the end\n");
}

TEST_F(PassManagerTest, WritesAReproducer) {
  TemporaryDirectory directory;
  PassInstrumentation instrumentation;
  instrumentation.reproducerPath = directory.str() + "/reproducer.kiln";
  std::string before = toString(*module);
  PassInvocation passes[] = {invoke(brokenPass, {{"count", 3}, {"all", true}})};
  std::string command = "kiln-opt --passes='drop-returns{all = true, count = 3}' " + instrumentation.reproducerPath;
  EXPECT_EQ(messageOf(runPasses(*module, passes, instrumentation)),
            "error: pass drop-returns made ill-formed IR; reproduce with: " + command +
                "\ntest.kiln:2:8: error: @f: expected a return at the end\n");
  EXPECT_EQ(unwrap(readFile(instrumentation.reproducerPath)), "// " + command + "\n" + before);
  // The message contains a command line that kiln-opt accepts, and the file is the module before the pass.
  EXPECT_EQ(toString(parse(unwrap(readFile(instrumentation.reproducerPath)))), before);
}

TEST_F(PassManagerTest, SaysWhenTheReproducerCannotBeWritten) {
  TemporaryDirectory directory;
  PassInstrumentation instrumentation;
  instrumentation.reproducerPath = directory.str() + "/missing/reproducer.kiln";
  EXPECT_EQ(directory.relative(messageOf(runPasses(*module, invoke(brokenPass), instrumentation))),
            "error: pass drop-returns made ill-formed IR\n"
            "test.kiln:2:8: error: @f: expected a return at the end\n"
            "missing/reproducer.kiln: error: cannot write: No such file or directory\n");
}

TEST_F(PassManagerTest, WritesNoReproducerOfAPassThatReportsAnError) {
  TemporaryDirectory directory;
  PassInstrumentation instrumentation;
  instrumentation.reproducerPath = directory.str() + "/reproducer.kiln";
  EXPECT_NE(messageOf(runPasses(*module, invoke(refusingPass), instrumentation)), "");
  EXPECT_FALSE(llvm::sys::fs::exists(instrumentation.reproducerPath));
}

//===----------------------------------------------------------------------===//
// Invocations
//===----------------------------------------------------------------------===//

TEST_F(PassManagerTest, ChecksOptions) {
  EXPECT_EQ(invoke(brokenPass).str(), "drop-returns");
  EXPECT_EQ(invoke(brokenPass, {{"count", 1}}).str(), "drop-returns"); // the default
  EXPECT_EQ(messageOf(makeInvocation(brokenPass, {{"size", 1}})), "error: pass drop-returns: unknown option 'size'\n");
  EXPECT_EQ(messageOf(makeInvocation(brokenPass, {{"count", true}})),
            "error: pass drop-returns: option 'count': expected an integer, got true\n");
  EXPECT_EQ(messageOf(makeInvocation(brokenPass, {{"all", 1}})),
            "error: pass drop-returns: option 'all': expected true or false, got 1\n");
  EXPECT_EQ(messageOf(makeInvocation(brokenPass, {{"how", 1}})),
            "error: pass drop-returns: option 'how': expected a name, got 1\n");
  EXPECT_EQ(messageOf(makeInvocation(brokenPass, {{"how", Attribute::ident("lazy")}})),
            "error: pass drop-returns: option 'how': expected fast or slow, got lazy\n");
}

/// The list as it was parsed, or the error.
std::string parsed(StringRef text) {
  Expected<std::vector<PassInvocation>> passes = parsePasses(text);
  if (!passes)
    return messageOf(passes.takeError());
  return llvm::join(llvm::map_range(*passes, [](const PassInvocation &pass) { return pass.str(); }), ",");
}

TEST_F(PassManagerTest, ParsesListsOfPasses) {
  EXPECT_EQ(parsed(""), "");
  EXPECT_EQ(parsed("  "), "");
  EXPECT_EQ(parsed("canonicalize"), "canonicalize");
  EXPECT_EQ(parsed(" canonicalize , fuse-norm "), "canonicalize,fuse-norm");
  EXPECT_EQ(parsed("canonicalize{}"), "canonicalize");
  EXPECT_EQ(parsed("choose-tiles{batch=8,tokens = 16},fuse-norm{ into = producer }, fuse-epilogue{residual=false}"),
            "choose-tiles{batch = 8, tokens = 16},fuse-norm{into = producer},fuse-epilogue{residual = false}");
  // Printed text can be parsed.
  EXPECT_EQ(parsed(parsed("choose-tiles{batch=8,tokens=16},fuse-norm")),
            parsed("choose-tiles{batch=8,tokens=16},fuse-norm"));
}

TEST_F(PassManagerTest, StringsMayBeNames) {
  EXPECT_EQ(parsed("choose-tiles{tuning=none}"), "choose-tiles{tuning = \"none\"}");
  EXPECT_EQ(parsed("choose-tiles{tuning = \"a b/c-d.toml\"}"), "choose-tiles{tuning = \"a b/c-d.toml\"}");
}

/// The error in a list, with its position.
std::string refused(StringRef text) {
  std::string message = parsed(text);
  return message.substr(StringRef("--passes:1:").size());
}

TEST_F(PassManagerTest, RefusesWhatIsNoListOfPasses) {
  EXPECT_EQ(parsed("fuse"), "--passes:1:1: error: unknown pass 'fuse'; kiln-opt --list-passes shows them all\n");
  EXPECT_EQ(refused(",fuse-norm"), "1: error: expected the name of a pass, got ','\n");
  EXPECT_EQ(refused("fuse-norm,,fuse-norm"), "11: error: expected the name of a pass, got ','\n");
  EXPECT_EQ(refused("fuse-norm,"), "11: error: expected the name of a pass, got the end of the text\n");
  EXPECT_EQ(refused("fuse-norm{into=producer}fuse-norm"), "25: error: expected ',' between passes, got 'fuse-norm'\n");
  EXPECT_EQ(refused("fuse-norm{into=producer"), "24: error: expected '}', got the end of the text\n");
  EXPECT_EQ(refused("fuse-norm{into}"), "15: error: expected '=' after 'into', got '}'\n");
  EXPECT_EQ(refused("fuse-norm{=producer}"), "11: error: expected an attribute's name, got '='\n");
  EXPECT_EQ(refused("fuse-norm{into=}"), "16: error: expected an attribute's value, got '}'\n");
  EXPECT_EQ(refused("fuse-norm{into=producer,into=consumer}"), "25: error: 'into' is given twice\n");
  EXPECT_EQ(refused("fuse-norm{onto=producer}"), "11: error: pass fuse-norm: unknown option 'onto'\n");
  EXPECT_EQ(refused("fuse-norm{into=both}"),
            "16: error: pass fuse-norm: option 'into': expected consumer or producer, got both\n");
  EXPECT_EQ(refused("choose-tiles{batch=-1}"),
            "20: error: pass choose-tiles: option 'batch': expected 0 to 2147483647, got -1\n");
  EXPECT_EQ(refused("pack-weights{pad=-1}"),
            "18: error: pass pack-weights: option 'pad': expected 0 to 4096, got -1\n");
}

TEST_F(PassManagerTest, DeepNestingIsAnErrorAndNoCrash) {
  std::string text = "choose-tiles{tiles=";
  for (int i = 0; i < 100000; ++i)
    text += "{a=";
  EXPECT_EQ(refused(text), "71: error: attributes are nested too deeply\n");
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

TEST_F(PassManagerTest, NoPassRunsAfterOneThatRestsOnItsWork) {
  auto run = [&](StringRef passes) {
    parse("module @m {\n  func @f(%x: f32[4]) -> f32[4] {\n    %y = relu %x : f32[4]\n    return %y\n  }\n}\n");
    return messageOf(runPasses(*module, unwrap(parsePasses(passes))));
  };
  EXPECT_EQ(run("select-kernels,choose-tiles,place-parameters,plan-memory"), "");
  EXPECT_EQ(run("select-kernels,select-kernels,choose-tiles,choose-tiles,plan-memory,plan-memory"), "");
  for (const PassDef *pass : allPasses()) {
    if (!pass->sets.empty())
      break;
    EXPECT_EQ(run("select-kernels," + pass->name.str()),
              "test.kiln:3:10: error: relu: pass " + pass->name.str() +
                  " comes before select-kernels, which has set 'kernel' here\n");
  }
  EXPECT_EQ(run("select-kernels,choose-tiles,select-kernels"),
            "test.kiln:3:10: error: relu: pass select-kernels comes before choose-tiles, which has set 'tile' here\n");
  EXPECT_EQ(
      run("select-kernels,choose-tiles,plan-memory,place-parameters"),
      "test.kiln:3:10: error: relu: pass place-parameters comes before plan-memory, which has set 'offsets' here\n");
}

TEST_F(PassManagerTest, EveryCommonAttributeHasAPassThatSetsIt) {
  std::map<StringRef, int> setters;
  for (const PassDef *pass : allPasses())
    for (StringRef name : pass->sets)
      ++setters[name];
  for (const AttributeSpec &spec : commonAttributes())
    EXPECT_EQ(setters[spec.name], 1) << spec.name.str();
  EXPECT_EQ(setters.size(), commonAttributes().size());
}

TEST_F(PassManagerTest, EveryPassIsListedOnceAndDescribed) {
  std::set<StringRef> names;
  for (const PassDef *pass : allPasses()) {
    EXPECT_TRUE(names.insert(pass->name).second) << pass->name.str();
    EXPECT_FALSE(pass->summary.empty()) << pass->name.str();
    EXPECT_TRUE(llvm::all_of(pass->name, [](char c) { return llvm::isLower(c) || c == '-'; })) << pass->name.str();
    for (const PassOption &option : pass->options)
      EXPECT_FALSE(option.doc.empty()) << pass->name.str() << " " << option.name.str();
  }
}

} // namespace
} // namespace kiln
