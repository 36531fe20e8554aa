// The text of --passes: `a,b{n=2}`.
#include "passes/PassManager.h"

#include "ir/ParserBase.h"
#include "support/Diagnostic.h"
#include "support/text/Nearest.h"

namespace kiln {

namespace {

class PassListParser : ParserBase {
public:
  explicit PassListParser(const SourceFile *file) : ParserBase(file, Lexer::Words::OfCommandLines) {}

  Expected<std::vector<PassInvocation>> parse() {
    std::vector<PassInvocation> passes;
    if (token.kind == Token::Kind::End)
      return passes;
    do {
      Expected<PassInvocation> invocation = parseInvocation();
      if (!invocation)
        return invocation.takeError();
      passes.push_back(std::move(*invocation));
    } while (consumePunct(","));
    if (token.kind != Token::Kind::End)
      return expected("',' between passes");
    return passes;
  }

private:
  Expected<PassInvocation> parseInvocation() {
    Location loc = here();
    Expected<StringRef> name = expect(Token::Kind::Word, "the name of a pass");
    if (!name)
      return name.takeError();
    auto it = llvm::find_if(allPasses(), [&](const PassDef *pass) { return pass->name == *name; });
    if (it == allPasses().end())
      return makeError(
          loc, "unknown pass '" + *name + "'; kiln-opt --list-passes shows them all" +
                   didYouMean(*name, llvm::map_range(allPasses(), [](const PassDef *pass) { return pass->name; })));
    if (!token.is("{"))
      return makeInvocation(**it);
    auto options = parseAttributes();
    if (!options)
      return options.takeError();
    return makeWrittenInvocation(**it, *options);
  }
};

} // namespace

Expected<std::vector<PassInvocation>> parsePasses(StringRef text) {
  SourceManager sources;
  return PassListParser(sources.add("--passes", text.str())).parse();
}

} // namespace kiln
