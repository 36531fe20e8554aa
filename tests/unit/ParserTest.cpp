#include "TestSupport.h"

#include "ir/Parser.h"
#include "ir/Printer.h"
#include "ops/OpTable.h"

namespace kiln {
namespace {

// A module with every production of the grammar, as short as possible: the tests below parse it a hundred thousand
// times with an error in it.
constexpr StringRef everything =
    R"(module @m.1 attributes {eos = [-1], kernels = {a = [1.5e-05, "x\22"], c = {d = true}}} {
  dim B : 1..64
  weight %w : f16[8,8] = "w"[8,4] -> transpose -> pad
  state %k : f32[B,1,8,8]
  func @f(%x: f32[B,2,8], %n: f32[8]) -> (f32[B,2,8], f32[B,2,8]) attributes {arena = "0"} {
    %s, %t = fused @add(%x, %n, %w) {
      %s = add %x, %n : f32[B,2,8] // comment
      %t = matmul %s, %w {out = f32, transpose_b = true} : f32[B,2,8]  loc("m.toml":1:2)
      yield %s, %t
    } {kernel = gemm} : f32[B,2,8], f32[B,2,8]
    return %s, %t  loc("m.toml":3:4)
  }
  func @g(%y: f32[B,1,1,8]) -> () {
    %c = cache_write %k, %y : f32[B,1,8,8]
    return
  }
}
)";

/// Parses text that may be anything. If it parses, it must print as text that parses to the same.
void expectDiagnosedOrStable(StringRef text) {
  SourceManager sources;
  auto module = parseModule(sources.add("m.kiln", text.str()), sources, opTable());
  if (!module) {
    std::vector<Diagnostic> diagnostics = takeDiagnostics(module.takeError());
    ASSERT_FALSE(diagnostics.empty()) << text.str();
    ASSERT_FALSE(diagnostics.front().message.empty()) << text.str();
    // The position is in the text, or the one that a loc() gives.
    ASSERT_FALSE(diagnostics.front().file.empty()) << text.str();
    ASSERT_TRUE(diagnostics.front().line && diagnostics.front().column) << text.str();
    return;
  }
  std::string printed = toString(**module);
  auto again = parseModule(sources.add("again.kiln", printed), sources, opTable());
  if (!again)
    FAIL() << text.str() << "\nprints as\n" << printed << "\nwhich does not parse: " << messageOf(again.takeError());
  ASSERT_EQ(toString(**again), printed) << text.str();
}

TEST(Parser, AcceptsTheModuleOfTheseTests) {
  SourceManager sources;
  unwrap(parseModule(sources.add("m.kiln", everything.str()), sources, opTable()));
}

TEST(Parser, SurvivesTruncationAtEveryByte) {
  for (size_t size = 0; size < everything.size(); ++size)
    expectDiagnosedOrStable(everything.take_front(size));
}

TEST(Parser, SurvivesEveryByteDroppedOrDoubled) {
  for (size_t at = 0; at < everything.size(); ++at) {
    std::string text = everything.str();
    expectDiagnosedOrStable(text.substr(0, at) + text.substr(at + 1));
    expectDiagnosedOrStable(text.substr(0, at) + text[at] + text.substr(at));
  }
}

TEST(Parser, SurvivesEveryByteReplaced) {
  // One of each kind of token, and bytes that cannot start a token.
  constexpr StringRef replacements = llvm::StringLiteral::withInnerNUL("{}()[]:,=->.%@\"\\/0b \n\0\xff");
  for (size_t at = 0; at < everything.size(); ++at)
    for (char c : replacements) {
      std::string text = everything.str();
      text[at] = c;
      expectDiagnosedOrStable(text);
    }
}

/// The start and the end of every token of the text, according to the grammar. Comments are not tokens.
static std::vector<std::pair<size_t, size_t>> tokensOf(StringRef text) {
  std::vector<std::pair<size_t, size_t>> tokens;
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    StringRef rest = text.drop_front(at);
    if (rest.starts_with("//") || text[at] == '"')
      end = text.find(text[at] == '"' ? '"' : '\n', at + 1) + 1;
    else if (rest.starts_with("->") || rest.starts_with(".."))
      end = at + 2;
    else if (isWord(text[at]) || text[at] == '%' || text[at] == '@' || text[at] == '-')
      end = std::min(text.find_if_not([&](char c) { return isWord(c) || c == '.' || c == '-'; }, at + 1),
                     text.find("..", at));
    if (!llvm::isSpace(text[at]) && !rest.starts_with("//"))
      tokens.push_back({at, end});
    at = end;
  }
  return tokens;
}

TEST(Parser, SurvivesEveryTokenDroppedDoubledAndReplaced) {
  std::vector<std::pair<size_t, size_t>> tokens = tokensOf(everything);
  ASSERT_GT(tokens.size(), 250u);
  std::set<StringRef> kinds = {"9223372036854775808", "-9223372036854775809", "1e999", "f64", "loc", "\"\""};
  for (auto [begin, end] : tokens)
    kinds.insert(everything.slice(begin, end));
  for (auto [begin, end] : tokens) {
    StringRef before = everything.take_front(begin), token = everything.slice(begin, end),
              after = everything.drop_front(end);
    expectDiagnosedOrStable((before + after).str());
    expectDiagnosedOrStable((before + token + " " + token + after).str());
    for (StringRef other : kinds)
      expectDiagnosedOrStable((before + " " + other + " " + after).str());
  }
}

TEST(Parser, SurvivesEveryPairOfLinesExchanged) {
  SmallVector<StringRef, 32> lines;
  everything.split(lines, '\n');
  for (size_t i = 0; i < lines.size(); ++i)
    for (size_t j = i + 1; j < lines.size(); ++j) {
      SmallVector<StringRef, 32> swapped(lines);
      std::swap(swapped[i], swapped[j]);
      expectDiagnosedOrStable(llvm::join(swapped, "\n"));
    }
}

TEST(Parser, SurvivesEveryTokenReplacedByAnother) {
  // Tokens are separated by white space only; adjacent ones stay together.
  SmallVector<StringRef, 128> words;
  everything.split(words, ' ', -1, /*KeepEmpty=*/false);
  for (size_t i = 0; i < words.size(); ++i)
    for (size_t j = 0; j < words.size(); ++j) {
      SmallVector<StringRef, 128> replaced(words);
      replaced[i] = words[j];
      expectDiagnosedOrStable(llvm::join(replaced, " "));
    }
}

} // namespace
} // namespace kiln
