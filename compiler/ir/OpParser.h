//===- OpParser.h - parsing blocks of ops ---------------------------------===//
#pragma once

#include "ir/ParserBase.h"

namespace kiln {

/// The part of the parser that reads ops and knows which values they may name. As in ParserBase, every method returns
/// at the first error.
class OpParser : protected ParserBase {
protected:
  OpParser(const SourceFile *file, SourceManager &sources, const OpTable &table)
      : ParserBase(file), sources(sources), table(table) {}

  /// Parses ops up to the '}' after the terminator.
  Error parseBlock(Block &block);
  /// Names a value in the innermost scope. Error: the name is taken.
  Error define(Value *value);

  using Scope = StringMap<Value *>;
  std::vector<Scope> scopes; ///< module, function, fused region

private:
  struct ResultName {
    StringRef name;
    Location loc;
  };

  Error parseOp(Block &block);
  Expected<SmallVector<ResultName, 2>> parseResultNames();
  Expected<const OpDef *> parseMnemonic(const Block &block, bool hasResultNames);
  Error parseFusedBody(Op &op);
  Error parseResultTypes(Op &op, ArrayRef<ResultName> names);
  Expected<Value *> parseValueUse();
  Expected<SmallVector<Value *, 4>> parseValueUses();
  Error parseLocation(Location &loc);

  SourceManager &sources;
  const OpTable &table;
};

} // namespace kiln
