// A generated kernel asserts that its template needs exactly the shared memory of the family's record.
#include "IrSupport.h"

#include "codegen/KernelText.h"
#include "driver/Compile.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "nvrtc/Nvrtc.h"
#include "ops/Region.h"
#include "templates/TemplateFiles.h"

#include <set>

namespace kiln {
namespace {

/// One op of each kind that has a kernel, with a row length of N, heads of H elements and tensors of type D.
constexpr StringRef moduleText = R"(
module @m {
  dim B : 1..@BATCH
  dim T : 1..64
  weight %g : f32[@N]   = "g"
  weight %w : @D[40,@N] = "w"[@N,40] -> transpose
  weight %u : @D[96,@N] = "u"[@N,96] -> transpose
  weight %c : f32[40]   = "c"
  state %kc : @D[B,2,64,@H]
  state %vc : @D[B,2,64,@H]

  func @rows(%x: @D[B,T,@N], %s: @D[B,2,T,T]) -> (@D[B,T,@N], @D[B,T,@N], f32[B,T], f32[B,T], @D[B,2,T,T], f32[B,T], f32[B,T]) {
    %y    = relu %x                           : @D[B,T,@N]
    %ln   = layernorm %x, %g, %g {eps = 1e-05} : @D[B,T,@N]
    %mean = row_mean %x                       : f32[B,T]
    %rstd = row_rstd %x, %mean {eps = 1e-05}  : f32[B,T]
    %p    = softmax %s                        : @D[B,2,T,T]
    %m, %r = fused @row_mean_row_rstd(%x) {
      %m = row_mean %x                   : f32[B,T]
      %r = row_rstd %x, %m {eps = 1e-05} : f32[B,T]
      yield %m, %r
    } : f32[B,T], f32[B,T]
    return %y, %ln, %mean, %rstd, %p, %m, %r
  }
  func @products(%x: @D[B,T,@N], %t: @D[B,1,@N], %z: @D[B,1,@N]) -> (@D[B,T,96], @D[B,1,40], @D[B,1,40]) {
    %a = matmul %x, %u {transpose_b = true} : @D[B,T,96]
    %b = matmul %t, %w {transpose_b = true} : @D[B,1,40]
    %d = fused @layernorm_matmul(%z, %g, %w) {
      %ln = layernorm %z, %g, %g {eps = 1e-05}  : @D[B,1,@N]
      %mm = matmul %ln, %w {transpose_b = true} : @D[B,1,40]
      yield %mm
    } : @D[B,1,40]
    return %a, %b, %d
  }
  func @statistics(%x: @D[B,T,@N], %s: f32[96]) -> @D[B,T,96] {
    %y = fused @matmul_norm(%x, %u, %s) {
      %mm = matmul %x, %u {transpose_b = true}      : @D[B,T,96]
      %m  = row_mean %x                             : f32[B,T]
      %r  = row_rstd %x, %m {eps = 1e-05}           : f32[B,T]
      %n  = normalize_product %mm, %m, %r, %s       : @D[B,T,96]
      yield %n
    } : @D[B,T,96]
    return %y
  }
  func @tokens(%x: @D[B,T,@N], %ids: i32[B,T]) -> (f32[B,T], i32[B,T], i32[B,T]) {
    %p = fused @matmul_score(%x, %u, %ids) {
      %mm = matmul %x, %u {transpose_b = true} : @D[B,T,96]
      %lp = log_probability %mm, %ids          : f32[B,T]
      yield %lp
    } : f32[B,T]
    %q = fused @matmul_score(%x, %w) {
      %mm = matmul %x, %w {transpose_b = true} : @D[B,T,40]
      %id = argmax %mm                         : i32[B,T]
      yield %id
    } : i32[B,T]
    %best = argmax %x : i32[B,T]
    return %p, %q, %best
  }
  func @attention(%q: @D[B,2,T,@H], %k: @D[B,2,T,@H], %r: @D[B,2,1,@H], %positions: i32[B]) -> (@D[B,2,T,@H], @D[B,2,1,@H], @D[B,2,T,T], @D[B,2,T,T], @D[B,2,T,@H]) {
    %a = fused @prompt(%q, %k) {
      %s = qk %q, %k {out = f32} : f32[B,2,T,T]
      %m = causal_mask %s : f32[B,2,T,T]
      %p = softmax %m     : f32[B,2,T,T]
      %o = pv %p, %k      : @D[B,2,T,@H]
      yield %o
    } : @D[B,2,T,@H]
    %b = fused @token(%r, %kc, %positions, %vc) {
      %s = qk %r, %kc {out = f32}     : f32[B,2,1,64]
      %m = causal_mask %s, %positions : f32[B,2,1,64]
      %p = softmax %m                 : f32[B,2,1,64]
      %o = pv %p, %vc                 : @D[B,2,1,@H]
      yield %o
    } : @D[B,2,1,@H]
    %d = fused @scores(%q, %k) {
      %s = qk %q, %k      : @D[B,2,T,T]
      %m = causal_mask %s : @D[B,2,T,T]
      yield %m
    } : @D[B,2,T,T]
    %e = qk %q, %k : @D[B,2,T,T]
    %f = pv %e, %k : @D[B,2,T,@H]
    return %a, %b, %d, %e, %f
  }
}
)";

std::string replaced(std::string text, StringRef what, StringRef with) {
  for (size_t at; (at = text.find(what)) != std::string::npos;)
    text.replace(at, what.size(), with);
  return text;
}

class SharedMemory : public IrTest {
protected:
  Module &parseFor(StringRef dtype, int batch, int cols, int headSize) {
    std::string text = replaced(moduleText.str(), "@BATCH", std::to_string(batch));
    text = replaced(replaced(text, "@N", std::to_string(cols)), "@H", std::to_string(headSize));
    return parse(replaced(text, "@D", dtype));
  }

  /// The compiler's message about the assertions of all kernels that were passed to `add`.
  Expected<CompiledKernel> compile() const {
    std::string text;
    for (const std::string &header : headers)
      text += "#include \"" + header + "\"\n";
    text += declarations + "extern \"C\" __global__ void none() {}\n";
    return unwrap(Nvrtc::get())->compile("assertions.cu", text, "sm_90a", templateFiles());
  }

  /// Keeps the functors and the assertion of a kernel.
  void add(const KernelText &kernel) {
    StringRef declared = StringRef(kernel.body).split("using namespace kiln;").second.split("extern \"C\"").first;
    auto [before, assertion] = StringRef(kernel.body).split("  static_assert(");
    ASSERT_FALSE(assertion.empty()) << kernel.body;
    declarations += "namespace kernel_" + std::to_string(count++) + " {\nusing namespace kiln;" + declared.str() +
                    "static_assert(" + assertion.split('\n').first.str() + "\n}\n";
  }

  /// Adds kernels of an op by every family that accepts it, in some twelve configurations of each, and as many of those
  /// that only a tuner tries.
  void addAll(const Op &op, const Target &target) {
    DimBinding upper = upperBounds(op);
    for (const KernelFamily *family : allKernelFamilies()) {
      if (family->form == KernelForm::Library || !family->runs(op, target, upper))
        continue;
      headers.insert(family->header.str());
      families.insert(family->name.str());
      addSome(op, *family, target, family->configurations(op, target, upper));
      if (family->moreToTry)
        addSome(op, *family, target, family->moreToTry(op, target, upper));
    }
  }
  void addSome(const Op &op, const KernelFamily &family, const Target &target, ArrayRef<Tile> tiles) {
    size_t step = std::max<size_t>(1, tiles.size() / 12);
    for (size_t i = 0; i < tiles.size(); i += step) {
      Attribute tile(tiles[i]);
      expectSuccess(checkTile(op, family, &tile, target, upperBounds(op)));
      add(unwrap(writeKernel(op, {&family, tiles[i]})));
    }
  }

  /// Adds the kernels of all layers of a model's decode step.
  void addDecode(StringRef model, int64_t batch, const Target &target) {
    CompileOptions options;
    options.pipeline.dtype = "bf16";
    options.pipeline.decode = "persistent";
    options.build.maxBatch = batch;
    auto module = unwrap(compileToStage(sourcePath(model), Stage::Fused, options, sources));
    addAll(*module->findFunction(Entry::Decode)->body.snapshot().front(), target);
  }

  /// Adds the exchanges of a model that two GPUs share, and the products with sums of theirs.
  void addRanks(const Target &target) {
    CompileOptions options;
    options.pipeline.dtype = "bf16";
    options.pipeline.ranks = 2;
    options.build.maxBatch = 8;
    auto module = unwrap(compileToStage(sourcePath("graphs/gpt2-124m.toml"), Stage::Plan, options, sources));
    for (const auto &function : module->functions)
      for (const auto &op : function->body.ops())
        if (anchor(*op)->has(Trait::Exchange) || sumsParts(*op))
          addAll(*op, target);
  }

  std::set<std::string> headers = {"device/device.cuh"}, families;
  std::string declarations;
  int count = 0;
};

TEST_F(SharedMemory, IsAsPlannedInEveryConfiguration) {
  const Target &target = *unwrap(findTarget("sm_90a"));
  auto addModule = [&](StringRef dtype, int batch, int cols, int headSize) {
    for (const auto &function : parseFor(dtype, batch, cols, headSize).functions)
      for (const auto &op : function->body.ops())
        if (!op->has(Trait::Terminator))
          addAll(*op, target);
  };
  addModule("f32", 1, 30, 8);
  addModule("bf16", 1, 770, 24);
  addModule("bf16", 4, 1000, 64);
  addModule("f16", 1, 3072, 128);
  addModule("f32", 4, 3001, 256);
  addModule("f32", 1, 12280, 40);
  addRanks(target);
  addDecode("graphs/gpt2-124m.toml", 1, target);
  addDecode("graphs/gpt2-1558m.toml", 4, target);
  addDecode("graphs/shakespeare-5m", 8, target);
  EXPECT_EQ(messageOf(compile()), "");
  for (const KernelFamily *family : allKernelFamilies())
    EXPECT_TRUE(family->form == KernelForm::Library || families.count(family->name.str()))
        << family->name.str() << " has no kernel here";
}

/// The shared memory of the family's record, plus 16 bytes.
template <const KernelFamily &family> Launch launchWithMore(const Op &op, const Tile &tile) {
  Launch launch = family.launch(op, tile);
  (launch.dynamicShared ? launch.dynamicShared : launch.staticShared) += 16;
  return launch;
}

template <const KernelFamily &family> KernelText writeWithMore(const Op &op) {
  const Target &target = *unwrap(findTarget("sm_90a"));
  EXPECT_TRUE(family.runs(op, target, upperBounds(op)));
  KernelFamily broken = family;
  broken.launch = launchWithMore<family>;
  return unwrap(writeKernel(op, {&broken, family.configurations(op, target, upperBounds(op)).front()}));
}

TEST_F(SharedMemory, AnotherSizeIsRefused) {
  Module &module = parseFor("bf16", 4, 64, 64);
  headers.insert({mmaRowsFamily.header.str(), naiveFlashFamily.header.str()});
  add(writeWithMore<mmaRowsFamily>(op(module, "products", "b")));
  std::string message = messageOf(compile());
  EXPECT_NE(message.find("error: static assertion failed with \"shared memory as planned\""), std::string::npos)
      << message;

  declarations.clear();
  add(writeWithMore<naiveFlashFamily>(op(module, "attention", "a")));
  message = messageOf(compile());
  EXPECT_NE(message.find("error: static assertion failed with \"shared memory as planned\""), std::string::npos)
      << message;
}

} // namespace
} // namespace kiln
