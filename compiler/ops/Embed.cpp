#include "ops/Checks.h"
#include "ops/OpTable.h"
#include "ops/Tensor.h"
#include "support/model/RankSplit.h"

namespace kiln {

static Expected<Type> inferEmbed(const Op &op) {
  const Type &tokens = op.operand(0)->type, &wte = op.operand(1)->type, &wpe = op.operand(2)->type;
  for (unsigned i : {0, 1, 2})
    if (Error error = expectRank(op, i, 2))
      return error;
  if (Error error = expectType(op, 0, Type(DType::I32, tokens.shape)))
    return error;
  if (Error error = expectFloat(op, 1))
    return error;
  if (Error error = expectFloatShape(op, 2, {wpe.shape[0], wte.shape[1]}))
    return error;
  if (Value *positions = op.operandOrNull(3); positions)
    if (Error error = expectType(op, 3, Type(DType::I32, {tokens.shape[0]})))
      return error;
  if (tokens.shape[1].upperBound() > wpe.shape[0].upperBound())
    return opError(op, "expected at most as many tokens as positions (" + wpe.shape[0].str() + "), got " +
                           tokens.shape[1].str() + " up to " + Twine(tokens.shape[1].upperBound()));
  return Type(outDType(op, wte.dtype), {tokens.shape[0], tokens.shape[1], wte.shape[1]});
}

/// What is wrong with an op that has the attribute `vocab`: a table of a rank's share of the rows.
static std::string embedProblem(const Op &op, int64_t ranks) {
  if (!op.attribute("vocab"))
    return "";
  if (ranks < 2)
    return ("attribute 'vocab': expected a module of several ranks (attribute '" + ModuleAttribute::ranks +
            "'), got none")
        .str();
  RankSplit split = {.ranks = ranks};
  int64_t vocab = op.intAttribute("vocab");
  if (std::string problem = split.problem(vocab); !problem.empty())
    return "attribute 'vocab': " + problem;
  const Type &wte = op.operand(1)->type;
  if (wte.shape[0].upperBound() >= split.room(vocab)) // there may be rows of padding
    return "";
  return "expected a table of at least " + std::to_string(split.room(vocab)) + " rows, the most that a rank has of " +
         std::to_string(vocab) + ", got " + wte.str();
}

/// The tokens whose rows the table has: those of the rank's share, or of all.
template <class Real> static RankSplit::Run ownTokens(const EvalArgs<Real> &args, int64_t ranks) {
  if (!args.op.attribute("vocab"))
    return {0, 0, args.operands[1].dim(0)};
  return RankSplit{.ranks = ranks}.runs(args.op.intAttribute("vocab"), args.rank).front();
}

template <class Real> static Error evaluateEmbed(EvalArgs<Real> &args) {
  const Tensor<Real> &tokens = args.operands[0], &wte = args.operands[1], &wpe = args.operands[2];
  const Tensor<Real> *positions = args.operandOrNull(3);
  RankSplit::Run own = ownTokens(args, args.op.parent()->function()->module().ranks());
  int64_t vocab = args.op.intAttribute("vocab", wte.dim(0));
  for (int64_t row = 0; row < args.result.rows(); ++row) {
    int64_t b = row / tokens.dim(1), t = row % tokens.dim(1);
    int64_t token = static_cast<int64_t>(tokens.data()[row]);
    int64_t position = t + (positions ? static_cast<int64_t>(positions->data()[b]) : 0);
    if (token < 0 || token >= vocab)
      return opError(args.op, "token id out of range: expected 0 to " + Twine(vocab - 1) + ", got " + Twine(token));
    if (position < 0 || position >= wpe.dim(0))
      return opError(args.op,
                     "position out of range: expected 0 to " + Twine(wpe.dim(0) - 1) + ", got " + Twine(position));
    if (token < own.from || token >= own.from + own.count) {
      std::fill_n(args.result.row(row).data(), wte.dim(1), Real(0));
      continue;
    }
    for (auto [out, a, b] : llvm::zip(args.result.row(row), wte.row(token - own.from), wpe.row(position)))
      out = a + b;
  }
  return Error::success();
}

const OpDef embedOp = {
    .kind = OpKind::embed,
    .mnemonic = "embed",
    .summary =
        "Token plus position embedding: result[b,t] = wte[tokens[b,t]] + wpe[positions[b] + t]. With `vocab`, wte "
        "is the rank's share of so many rows, and the rows of other ranks' tokens are zero.",
    .operands = {{"tokens", "i32[B,T] token ids"},
                 {"wte", "[V,C] token embedding"},
                 {"wpe", "[P,C] position embedding"},
                 {"positions", "i32[B] position of each row's first token; 0 when left out", true}},
    .attributes = {outSpec("result type; that of wte when left out"),
                   {"vocab",
                    Attribute::Kind::Int,
                    "tokens of all ranks; when left out, wte has them all",
                    false,
                    {},
                    std::nullopt,
                    1}},
    .infer = inferEmbed,
    .rankProblem = embedProblem,
    .evaluateF32 = evaluateEmbed<float>,
    .evaluateF64 = evaluateEmbed<double>,
    .flops = [](const Op &op, ElementCount elements) { return elements(*op.result()); },
};

} // namespace kiln
