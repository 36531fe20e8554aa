// A writer of kernels refuses ops of a region that it does not support, with the op's position.
#include "IrSupport.h"

#include "codegen/KernelText.h"
#include "kernels/cost/Problem.h"
#include "kernels/families/Families.h"
#include "ops/Region.h"

namespace kiln {
namespace {

class KernelWriter : public IrTest {
protected:
  /// The message of the family's writer about a region with these inputs and lines.
  std::string writeRegion(const KernelFamily &family, StringRef inputs, StringRef lines, StringRef type) {
    Module &module = parse((R"(module @m {
  dim B : 1..4
  dim T : 1..64
  weight %g : f32[8]   = "g"
  weight %w : f32[8,8] = "w"
  func @f(%x: f32[B,T,8], %z: f32[B,T,8], %q: f32[B,2,T,8], %h: bf16[B,2,T,8], %positions: i32[B]) -> )" +
                            type + R"( {
    %r = fused @region()" + inputs +
                            ") {\n" + lines + R"(
    } : )" + type + R"(
    return %r
  }
})")
                               .str());
    const Op &fused = op(module, "f", "r");
    const Target &target = *unwrap(findTarget("sm_90a"));
    return messageOf(writeKernel(fused, {&family, family.configurations(fused, target, upperBounds(fused)).front()}));
  }
};

TEST_F(KernelWriter, CallsTheBodyOfItsFamily) {
  Module &module = parse(R"(module @m {
  dim B : 1..4
  dim T : 1..64
  weight %g : f32[8]   = "g"
  weight %w : f32[8,8] = "w"
  state %kc : f32[B,2,64,8]
  func @f(%x: f32[B,T,8], %s: f32[B,2,T,T], %r: f32[B,2,1,8], %positions: i32[B]) -> (f32[B,T,8], f32[B,T,8], f32[B,T], f32[B,2,T,T], f32[B,T,8], f32[B,2,1,8]) {
    %a = relu %x                            : f32[B,T,8]
    %b = layernorm %x, %g, %g {eps = 1e-05} : f32[B,T,8]
    %c = row_mean %x                        : f32[B,T]
    %d = softmax %s                         : f32[B,2,T,T]
    %e = matmul %x, %w                      : f32[B,T,8]
    %h = fused @token(%r, %kc, %positions) {
      %q = qk %r, %kc                 : f32[B,2,1,64]
      %m = causal_mask %q, %positions : f32[B,2,1,64]
      %p = softmax %m                 : f32[B,2,1,64]
      %o = pv %p, %kc                 : f32[B,2,1,8]
      yield %o
    } : f32[B,2,1,8]
    return %a, %b, %c, %d, %e, %h
  }
})");
  const Target &target = *unwrap(findTarget("sm_90a"));
  for (const auto &fused : module.functions.front()->body.ops()) {
    if (fused->has(Trait::Terminator))
      continue;
    KernelFamily family = *selectFamily(*fused, target, upperBounds(*fused));
    Tile tile = family.configurations(*fused, target, upperBounds(*fused)).front();
    family.body = "another";
    EXPECT_NE(unwrap(writeKernel(*fused, {&family, tile})).body.find("  another<Config>("), std::string::npos)
        << family.name.str();
  }
}

TEST_F(KernelWriter, SaysHowManyBlocksFormACluster) {
  Module &module = parse(R"(module @m {
  dim B : 1..4
  func @f(%x: f32[B,8]) -> f32[B,8] {
    %a = relu %x : f32[B,8]
    return %a
  }
})");
  const Op &relu = op(module, "f", "a");
  KernelFamily family = *selectFamily(relu, *unwrap(findTarget("sm_90a")), upperBounds(relu));
  Tile tile = family.configurations(relu, *unwrap(findTarget("sm_90a")), upperBounds(relu)).front();
  KernelText alone = unwrap(writeKernel(relu, {&family, tile}));
  EXPECT_EQ(alone.body.find("__cluster_dims__"), std::string::npos);
  EXPECT_EQ(alone.record.cluster, 1);
  family.launch = [](const Op &, const Tile &) { return Launch{.threads = 128, .cluster = 8}; };
  KernelText clustered = unwrap(writeKernel(relu, {&family, tile}));
  EXPECT_NE(clustered.body.find("extern \"C\" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(128)\n"),
            std::string::npos)
      << clustered.body;
  EXPECT_EQ(clustered.record.cluster, 8);
}

TEST_F(KernelWriter, AttentionInTensorCoresTakesFactorsOnly) {
  EXPECT_EQ(writeRegion(mmaFlashFamily, "%h", R"(
%s = qk %h, %h {out = f32} : f32[B,2,T,T]
%c = relu %s               : f32[B,2,T,T]
%m = causal_mask %c        : f32[B,2,T,T]
%p = softmax %m            : f32[B,2,T,T]
%o = pv %p, %h             : bf16[B,2,T,8]
yield %o)",
                        "bf16[B,2,T,8]"),
            "test.kiln:10:6: error: relu: expected scale only, between qk and causal_mask in tensor cores\n");
}

TEST_F(KernelWriter, AttentionIsOneChain) {
  auto write = [&](StringRef behindQk, StringRef behindMask, StringRef behindPv, StringRef yielded) {
    return writeRegion(simtFlashFamily, "%q",
                       ("%s = qk %q, %q {out = f32} : f32[B,2,T,T]\n" + behindQk + "%m = causal_mask %" +
                        (behindQk.empty() ? "s" : "a") + " : f32[B,2,T,T]\n" + behindMask + "%p = softmax %" +
                        (behindMask.empty() ? "m" : "b") + " : f32[B,2,T,T]\n%o = pv %p, %q : f32[B,2,T,8]\n" +
                        behindPv + "yield %" + yielded)
                           .str(),
                       yielded == "p" ? "f32[B,2,T,T]" : "f32[B,2,T,8]");
  };
  EXPECT_EQ(write("%a = relu %s : f32[B,2,T,T]\n", "", "", "o"), "");
  EXPECT_EQ(
      write("%a = cast %s {to = f32} : f32[B,2,T,T]\n", "", "", "o"),
      "test.kiln:9:6: error: cast: expected causal_mask, or a function of one score (no cast), at this place of an "
      "attention\n");
  EXPECT_EQ(
      write("%a = add %s, %s : f32[B,2,T,T]\n", "", "", "o"),
      "test.kiln:9:6: error: add: expected causal_mask, or a function of one score (no cast), at this place of an "
      "attention\n");
  EXPECT_EQ(write("", "%b = scale %m {factor = 2.0} : f32[B,2,T,T]\n", "", "o"),
            "test.kiln:10:6: error: scale: expected softmax at this place of an attention\n");
  EXPECT_EQ(write("", "", "%c = relu %o : f32[B,2,T,8]\n", "c"),
            "test.kiln:12:6: error: relu: expected a layout op at this place of an attention\n");
  EXPECT_EQ(write("%d = relu %s : f32[B,2,T,T]\n%a = relu %s : f32[B,2,T,T]\n", "", "", "o"),
            "test.kiln:10:6: error: relu: expected operand 0 to be %d in an attention\n");
  EXPECT_EQ(write("", "", "", "p"), "test.kiln:7:10: error: fused @region: expected results that the kernel "
                                    "attention_simt stores, got %p\n");
}

TEST_F(KernelWriter, ProductsOfHeadsTakeScaleAndMask) {
  auto write = [&](StringRef line) {
    return writeRegion(simtScoresFamily, line.contains("positions") ? "%q, %positions" : "%q",
                       ("%s = qk %q, %q : f32[B,2,T,T]\n%a = " + line +
                        " : f32[B,2,T,T]\n%m = causal_mask %a : f32[B,2,T,T]\nyield %m")
                           .str(),
                       "f32[B,2,T,T]");
  };
  EXPECT_EQ(write("scale %s {factor = 2.0}"), "");
  EXPECT_EQ(write("relu %s"),
            "test.kiln:9:6: error: relu: expected scale, or causal_mask without positions, behind the "
            "product of a head\n");
  EXPECT_EQ(
      write("causal_mask %s, %positions"),
      "test.kiln:9:6: error: causal_mask: expected scale, or causal_mask without positions, behind the product of "
      "a head\n");
}

TEST_F(KernelWriter, ProductsTakeLayernormInFrontAndPointwiseBehind) {
  auto write = [&](StringRef inputs, StringRef lines) {
    return writeRegion(simtTiledFamily, inputs, lines, "f32[B,T,8]");
  };
  EXPECT_EQ(write("%x, %g, %w, %z",
                  "%n = layernorm %x, %g, %g {eps = 1e-05} : f32[B,T,8]\n%mm = matmul %n, %w : f32[B,T,8]\n"
                  "%a = add %mm, %z : f32[B,T,8]\nyield %a"),
            "");
  EXPECT_EQ(
      write("%x, %w", "%a = relu %x : f32[B,T,8]\n%mm = matmul %a, %w : f32[B,T,8]\nyield %mm"),
      "test.kiln:8:6: error: relu: expected nothing in front of the product but a layernorm of its left operand\n");
  EXPECT_EQ(write("%x, %g, %w",
                  "%n = layernorm %x, %g, %g {eps = 1e-05} : f32[B,T,8]\n%mm = matmul %n, %w : f32[B,T,8]\n"
                  "%a = add %mm, %n : f32[B,T,8]\nyield %a"),
            "test.kiln:10:6: error: add: expected operands that the kernel has when it has computed its product, got "
            "%n\n");
  EXPECT_EQ(
      write("%x, %w",
            "%mm = matmul %x, %w : f32[B,T,8]\n%c = cast %mm {to = f32} : f32[B,T,8]\n%a = relu %c : f32[B,T,8]\n"
            "yield %a"),
      "test.kiln:10:6: error: relu: expected nothing computed behind cast, which rounds where the kernel stores\n");
  EXPECT_EQ(write("%x, %w, %g",
                  "%mm = matmul %x, %w : f32[B,T,8]\n%n = layernorm %mm, %g, %g {eps = 1e-05} : f32[B,T,8]\nyield %n"),
            "test.kiln:9:6: error: layernorm: expected a pointwise or layout op behind what the kernel computes\n");
  EXPECT_EQ(write("%x, %g, %w",
                  "%n = layernorm %x, %g, %g {eps = 1e-05} : f32[B,T,8]\n%mm = matmul %n, %w : f32[B,T,8]\nyield %n"),
            "test.kiln:7:10: error: fused @region: expected results that the kernel gemm_simt stores, got %n\n");
}

/// A family that takes the operands of its product as tensor maps.
KernelFamily mappedFamily() {
  KernelFamily family = mmaTiledFamily;
  family.maps = [](const Op &op, const Tile &tile) {
    const Op &product = *anchor(op);
    MatmulProblem problem = matmulProblem(op);
    const Expr rowBytes = problem.depth * Expr(2);
    const int64_t rows = setting(tile, "tile_m"), cols = setting(tile, "tile_n");
    return std::vector<OperandMap>{{product.operand(0), {problem.depth, problem.rows}, {rowBytes}, {64, rows}},
                                   {product.operand(1), {problem.depth, problem.cols}, {rowBytes}, {64, cols}}};
  };
  return family;
}

TEST_F(KernelWriter, OperandsAreTensorMapsIfTheFamilyTakesThem) {
  // The residual is the product's left operand, so the kernel also needs its address. The product is named like the
  // map's parameter.
  Module &module = parse(R"(module @m {
  dim B : 1..4
  dim T : 1..64
  weight %w : bf16[128,128] = "w"
  func @f(%x: bf16[B,T,128]) -> bf16[B,T,128] {
    %r = fused @region(%x, %w) {
      %x_map = matmul %x, %w {transpose_b = true} : bf16[B,T,128]
      %y = add %x_map, %x : bf16[B,T,128]
      yield %y
    } : bf16[B,T,128]
    return %r
  }
})");
  const Op &fused = op(module, "f", "r");
  const KernelFamily family = mappedFamily();
  const Tile tile = {{"stages", 4}, {"tile_m", 64}, {"tile_n", 128}, {"warps_m", 2}, {"warps_n", 2}};
  KernelText text = unwrap(writeKernel(fused, {&family, tile}));
  EXPECT_TRUE(StringRef(text.body).contains("// x_map: extents 128, B*T; strides 256 bytes; box 64, 64\n"
                                            "// w_map: extents 128, 128; strides 256 bytes; box 64, 128\n"
                                            "extern \"C\" __global__ "))
      << text.body;
  EXPECT_TRUE(StringRef(text.body).contains(
      "    const bf16 *x, const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map,\n"
      "    bf16 *y_out, int B, int T) {"))
      << text.body;
  EXPECT_TRUE(StringRef(text.body).contains("mmaTiled<Config, bf16>(B * T, x_map, w_map, Epilogue{x, y_out});"))
      << text.body;
  EXPECT_TRUE(StringRef(text.body).contains("const auto y = x_map_2 + with.x.unpack();")) << text.body;
  EXPECT_EQ(text.arguments, (std::vector<std::string>{"%x", "%x", "%w", "%r", "B", "T"}));
  ASSERT_EQ(text.record.maps.size(), 2U);
  const PlanTensorMap &x = text.record.maps[0], &w = text.record.maps[1];
  EXPECT_EQ(x.argument, 1);
  EXPECT_EQ(x.dtype, DType::BF16);
  EXPECT_EQ(x.extents[1].str(), "B*T");
  EXPECT_EQ(w.argument, 2);
  EXPECT_EQ(w.strides.front().str(), "256");
  EXPECT_EQ(w.box, (SmallVector<Expr, 4>{64, 128}));
}

TEST_F(KernelWriter, NamesDifferFromParametersOfResults) {
  Module &module = parse(R"(module @m {
  dim B : 1..4
  dim T : 1..64
  weight %w : f32[8,8] = "w"
  func @f(%z: f32[B,T,8]) -> (f32[B,T,8], f32[B,T,8]) {
    %a, %b = fused @region(%z, %w) {
      %x     = matmul %z, %w : f32[B,T,8]
      %x_out = relu %x       : f32[B,T,8]
      yield %x, %x_out
    } : f32[B,T,8], f32[B,T,8]
    return %a, %b
  }
})");
  const Op &fused = op(module, "f", "a");
  const Target &target = *unwrap(findTarget("sm_90a"));
  const Tile tile = simtTiledFamily.configurations(fused, target, upperBounds(fused)).front();
  KernelText text = unwrap(writeKernel(fused, {&simtTiledFamily, tile}));
  EXPECT_TRUE(StringRef(text.body).contains("const float *w, float *x_out, float *x_out_2_out, int B, int T) {"))
      << text.body;
  EXPECT_TRUE(StringRef(text.body).contains("const auto x_out_2 = relu(x);")) << text.body;
}

TEST_F(KernelWriter, LayernormTakesOneAddition) {
  auto write = [&](StringRef inputs, StringRef lines) {
    return writeRegion(layerNormFamily, inputs, lines, "f32[B,T,8]");
  };
  EXPECT_EQ(write("%x, %z, %g",
                  "%a = add %x, %z : f32[B,T,8]\n%n = layernorm %a, %g, %g {eps = 1e-05} : f32[B,T,8]\nyield %n"),
            "");
  EXPECT_EQ(
      write("%x, %g", "%a = add %x, %g : f32[B,T,8]\n%n = layernorm %a, %g, %g {eps = 1e-05} : f32[B,T,8]\nyield %n"),
      "");
  EXPECT_EQ(write("%x, %z, %g",
                  "%a = add %x, %z : f32[B,T,8]\n%n = layernorm %x, %g, %g {eps = 1e-05} : f32[B,T,8]\nyield %n"),
            "test.kiln:8:6: error: add: expected a layernorm and the add that it normalises, and nothing else\n");
  EXPECT_EQ(
      write("%x, %g", "%n = layernorm %x, %g, %g {eps = 1e-05} : f32[B,T,8]\n%a = relu %n : f32[B,T,8]\nyield %a"),
      "test.kiln:9:6: error: relu: expected a layernorm and the add that it normalises, and nothing else\n");
}

} // namespace
} // namespace kiln
