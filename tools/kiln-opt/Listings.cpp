#include "Listings.h"

#include "ops/OpTable.h"
#include "passes/Pass.h"
#include "support/text/Markdown.h"

using namespace kiln;

/// `x`: [...,K]; `w`: [K,N]. Neighbouring results with equal specs, as those of return, are listed once.
static std::string operandsText(const OpDef &op) {
  std::vector<std::string> items;
  for (const OperandSpec &spec : op.operands) {
    std::string kind = spec.isState ? " (a state)" : spec.isOptional ? " (optional)" : "";
    items.push_back(("`" + spec.name + "`" + kind + ": " + spec.doc).str());
  }
  items.erase(std::unique(items.begin(), items.end()), items.end());
  return llvm::join(items, "; ");
}

static std::string attributesText(const OpDef &op) {
  return llvm::join(
      llvm::map_range(
          op.attributes,
          [](const AttributeSpec &spec) {
            std::string kind =
                spec.choices.empty() ? attributeKindName(spec.kind).str() : llvm::join(spec.choices, " or ");
            return ("`" + spec.name + "`, " + kind + (spec.isRequired ? "" : ", optional") + ": " + spec.doc).str();
          }),
      "; ");
}

void listOps(raw_ostream &os) {
  os << "| op | operands | attributes | what it computes |\n|---|---|---|---|\n";
  for (const OpDef *op : opTable().all())
    printTableRow(os, {"`" + op->mnemonic.str() + "`", operandsText(*op), attributesText(*op), op->summary.str()});
}

void listPasses(raw_ostream &os) {
  for (const PassDef *pass : allPasses()) {
    os << "  " << llvm::left_justify(pass->name, 34) << pass->summary << '\n';
    for (const PassOption &option : pass->options)
      os << "      " << llvm::left_justify(option.name, 10) << " = "
         << llvm::left_justify(option.defaultValue.str(), 10) << "  " << option.doc << '\n';
  }
}
