// all_reduce and all_gather: ops that make the same tensor on all ranks of what each of them has.
#include "ops/Checks.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"
#include "support/model/RankSplit.h"

namespace kiln {

static std::string needsRanks(const Op &, int64_t ranks) {
  return ranks > 1
             ? ""
             : ("expected a module of several ranks (attribute '" + ModuleAttribute::ranks + "'), got none").str();
}

//===----------------------------------------------------------------------===//
// all_reduce
//===----------------------------------------------------------------------===//

static Expected<Type> inferAllReduce(const Op &op) {
  if (Error error = expectFloat(op, 0))
    return error;
  const Type &x = op.operand(0)->type;
  return x.withDType(outDType(op, x.dtype));
}

template <class Real> static Error evaluateAllReduce(EvalArgs<Real> &args) {
  parallelRows(args.result.rows(), args.result.lastDim(), [&](int64_t i) {
    llvm::copy(args.peers[0].row(i), args.result.row(i).data());
    for (const Tensor<Real> &peer : args.peers.drop_front())
      for (auto [sum, x] : llvm::zip(args.result.row(i), peer.row(i)))
        sum += x;
  });
  return Error::success();
}

const OpDef allReduceOp = {
    .kind = OpKind::allReduce,
    .mnemonic = "all_reduce",
    .summary = "The sum of x over all ranks, added up in the order of the ranks: the same bits on each of them.",
    .traits = Trait::Exchange,
    .operands = {{"x", "any shape"}},
    .attributes = {outSpec("result type; that of x when left out")},
    .infer = inferAllReduce,
    .rankProblem = needsRanks,
    .evaluateF32 = evaluateAllReduce<float>,
    .evaluateF64 = evaluateAllReduce<double>,
    .flops = [](const Op &op, ElementCount elements) { return elements(*op.result()); },
};

//===----------------------------------------------------------------------===//
// all_gather
//===----------------------------------------------------------------------===//

static RankSplit gatheredSplit(const Op &op, int64_t ranks) {
  return {.ranks = ranks, .unit = op.intAttribute("unit", 1)};
}

static Expected<Type> inferAllGather(const Op &op) {
  if (Error error = expectFloat(op, 0))
    return error;
  Type result = op.operand(0)->type;
  int64_t size = op.intAttribute("size");
  if (!result.lastDim().asConstant())
    return opError(op, "expected a constant last extent, got " + result.str());
  result.shape.back() = size;
  if (!result.largestBytes())
    return opError(op, "attribute 'size': expected a result of at most 2^48 bytes, got " + result.str());
  return result;
}

static std::string gatherProblem(const Op &op, int64_t ranks) {
  if (std::string problem = needsRanks(op, ranks); !problem.empty())
    return problem;
  RankSplit split = gatheredSplit(op, ranks);
  int64_t size = op.intAttribute("size");
  if (std::string problem = split.problem(size); !problem.empty())
    return "attribute 'size': " + problem;
  const Type &x = op.operand(0)->type;
  if (*x.lastDim().asConstant() >= split.room(size)) // there may be padding behind it
    return "";
  return "expected a last extent of at least " + std::to_string(split.room(size)) + ", the most that a rank has of " +
         std::to_string(size) + ", got " + x.str();
}

template <class Real> static Error evaluateAllGather(EvalArgs<Real> &args) {
  RankSplit split = gatheredSplit(args.op, static_cast<int64_t>(args.peers.size()));
  for (const auto &[rank, peer] : llvm::enumerate(args.peers))
    for (RankSplit::Run run : split.runs(args.result.lastDim(), static_cast<int64_t>(rank)))
      parallelRows(args.result.rows(), run.count, [&, &peer = peer](int64_t i) {
        llvm::copy(peer.row(i).slice(run.to, run.count), args.result.row(i).data() + run.from);
      });
  return Error::success();
}

const OpDef allGatherOp = {
    .kind = OpKind::allGather,
    .mnemonic = "all_gather",
    .summary = "The shares of all ranks side by side, without what a share has room for beyond its part of `size`: "
               "[...,N] -> [...,size].",
    .traits = Trait::Exchange,
    .operands = {{"x", "[...,N]; N is the largest share of size, or more"}},
    .attributes = {{"size", Attribute::Kind::Int, "last extent of the result", true, {}, std::nullopt, 1},
                   {"unit",
                    Attribute::Kind::Int,
                    "columns that stay together in a share; 1 when left out",
                    false,
                    {},
                    std::nullopt,
                    1}},
    .infer = inferAllGather,
    .rankProblem = gatherProblem,
    .evaluateF32 = evaluateAllGather<float>,
    .evaluateF64 = evaluateAllGather<double>,
    .flops = [](const Op &, ElementCount) { return Expr(0); },
};

} // namespace kiln
