// derive-verify: derives @verify, several tokens of each sequence, from @decode, which has one.
//
//   func @decode(%tokens: i32[B,1], %positions: i32[B])        func @verify(%tokens: i32[B,5], %positions: i32[B])
//   %x  = embed %tokens, …, %positions : f32[B,1,768]    ->    %x  = embed %tokens, …, %positions : f32[B,5,768]
//   %kc = cache_write %k_cache.0, %k, %positions               %kc = cache_write %k_cache.0, %k, %positions
//   …                                                          …
//   return %logits                     : f32[B,1,50257]        return %logits                     : f32[B,5,50257]
//
// Why: the tokens after the first are guesses. @verify gives the logits after each of them in one pass, and so tells
// which guesses are what @decode would have led to. positions[b] is the place of a sequence's first token; the others
// follow, so embed, cache_write and causal_mask put each at its own place and let it see nothing behind it. What
// @verify writes into the caches for guesses that are refused is written again before anything reads it.
//
// option tokens: the tokens of each sequence, one more than the guesses; 0: there is no @verify.
//
// Refuses: nothing is left out silently. Error: a module without @decode(tokens i32[B,1], positions i32[B]) or with
// @verify; fused regions; more tokens than the context.
#include "ir/Verifier.h"
#include "passes/Pass.h"
#include "passes/Pipeline.h"
#include "passes/Rewrite.h"
#include "support/Diagnostic.h"

namespace kiln {

/// A sequence's last token and its guesses.
constexpr int64_t mostVerifiedTokens = 1 + mostDraftTokens;

static Error checkDecode(const Module &module, const Function *decode, int64_t tokens) {
  if (tokens < 2 || tokens > mostVerifiedTokens)
    return makeError(module.loc, "derive-verify: tokens: expected 0, or 2 to " + Twine(mostVerifiedTokens) + ", got " +
                                     Twine(tokens));
  if (const Function *verify = module.findFunction(Entry::Verify))
    return makeError(verify->loc, "derive-verify: expected a module without @verify");
  if (!decode)
    return makeError(module.loc, "derive-verify: expected a module with @decode, which insert-kv-cache makes");
  const auto &arguments = decode->arguments;
  bool fits = arguments.size() == 2 && arguments[0]->type.rank() == 2 &&
              arguments[0]->type == Type(DType::I32, {arguments[0]->type.shape[0], 1}) &&
              arguments[1]->type == Type(DType::I32, {arguments[0]->type.shape[0]});
  if (!fits)
    return makeError(decode->loc, "derive-verify: expected @decode(tokens i32[B,1], positions i32[B])");
  for (const auto &op : decode->body.ops())
    if (op->region())
      return opError(*op, "derive-verify: expected no fused region; run it before the passes that fuse");
  int64_t context = module.intAttribute(ModuleAttribute::context, tokens);
  if (tokens > context)
    return makeError(module.loc, "derive-verify: tokens: expected at most the context of " + Twine(context) + ", got " +
                                     Twine(tokens));
  return Error::success();
}

static Error deriveVerify(Module &module, const PassOptions &options) {
  int64_t tokens = options.getInt("tokens");
  if (tokens == 0)
    return Error::success();
  const Function *decode = module.findFunction(Entry::Decode);
  if (Error error = checkDecode(module, decode, tokens))
    return error;
  Function &verify = *module.addFunction(entryName(Entry::Verify), decode->loc);
  DenseMap<const Value *, Value *> mapped;
  for (const auto &argument : decode->arguments) {
    Type type = argument->type;
    if (type.rank() == 2)
      type.shape[1] = tokens;
    mapped[argument.get()] = verify.addArgument(argument->name, type, argument->loc);
  }
  copyOps(decode->body, verify.body, mapped);
  return refreshTypes(verify.body);
}

const PassDef deriveVerifyPass = {
    .name = "derive-verify",
    .summary = "Derives @verify, several tokens of each sequence, from @decode",
    .run = deriveVerify,
    .options = {{"tokens", int64_t(0), "tokens of a sequence, one more than the guesses; 0: no @verify"}},
};

} // namespace kiln
