#include "tools/report/Graph.h"

#include "ir/Builder.h"
#include "ops/Region.h"

namespace kiln {

std::string plainLine(const Op &op) {
  std::vector<std::string> results, operands;
  for (const auto &result : op.results())
    results.push_back("%" + withoutLayer(result->name).str());
  for (const Value *input : op.inputs())
    operands.push_back("%" + withoutLayer(input->name).str());
  AttributeMap own = op.attributes();
  for (const AttributeSpec &spec : commonAttributes())
    own.erase(spec.name.str());
  std::string text;
  raw_string_ostream os(text);
  os << llvm::join(results, ", ") << " = " << (op.region() ? "fused @" + op.symbol : op.mnemonic().str()) << ' '
     << llvm::join(operands, ", ");
  if (!own.empty())
    printAttributes(os << ' ', own);
  return text;
}

namespace {

struct Repeat {
  size_t first = 0, period = 0, count = 1;
  size_t end() const { return first + period * count; }
};

/// Finds the layers: the sequence of equal groups that covers the most ops.
Repeat findRepeat(ArrayRef<std::string> keys) {
  Repeat best;
  for (size_t period = 1; period <= keys.size() / 2; ++period) {
    size_t equal = 0; // length of the current run with keys[i] == keys[i + period]
    for (size_t i = 0; i + period <= keys.size(); ++i) {
      if (i + period < keys.size() && keys[i] == keys[i + period]) {
        ++equal;
        continue;
      }
      size_t count = equal / period + 1;
      if (count > 1 && count * period > best.count * best.period)
        best = {i - equal, period, count};
      equal = 0;
    }
  }
  return best;
}

class GraphBuilder {
public:
  /// With `use`, each op is a kernel of the plan. Without it, regions are replaced by their ops.
  GraphBuilder(const Function &function, const FunctionUse *use, const Plan *plan)
      : function(function), use(use), plan(plan) {
    for (const auto &op : function.body.ops())
      addOp(*op);
    for (const Value *value : function.body.terminator()->operands())
      if (!writtenState(*value))
        results.push_back(resolve(value));
    for (const auto &[i, op] : llvm::enumerate(ops))
      for (const Value *input : inputs(*op))
        readers[input].push_back(i);
  }

  Graph build();

private:
  void addOp(const Op &op);
  const Value *resolve(const Value *value) const;
  std::vector<const Value *> inputs(const Op &op) const;
  bool isFlowing(const Value &value) const { return !value.isWeight() && !value.isState(); }
  std::string key(size_t op) const;
  GraphNode makeNode(const Op &op, size_t index) const;
  GraphNode makeLayers(const Repeat &repeat) const;
  Graph makeRegion(const Op &fused) const;
  /// Makes nodes for ops [first, last). Ports for values from outside come before them, ports for `results` after them.
  Graph makeGraph(size_t first, size_t last, ArrayRef<const Value *> results, const Repeat &repeat) const;

  const Function &function;
  const FunctionUse *use;
  const Plan *plan;
  std::vector<const Op *> ops;
  std::vector<const Value *> results;
  std::map<const Value *, std::vector<size_t>> readers; ///< positions in `ops`
};

void GraphBuilder::addOp(const Op &op) {
  if (op.has(Trait::Terminator))
    return;
  if (use || !op.region())
    return ops.push_back(&op);
  for (const auto &inner : op.region()->ops())
    addOp(*inner);
}

/// A region that is replaced by its ops gives what its last op yields.
const Value *GraphBuilder::resolve(const Value *value) const {
  const Op *op = value->definingOp();
  if (use || !op || !op->region())
    return value;
  return op->region()->terminator()->operand(value->resultIndex());
}

std::vector<const Value *> GraphBuilder::inputs(const Op &op) const {
  std::vector<const Value *> values;
  for (const Value *input : op.inputs())
    values.push_back(resolve(input));
  return values;
}

/// A text that is equal for ops that do the same in different layers.
std::string GraphBuilder::key(size_t op) const {
  std::string text = plainLine(*ops[op]);
  for (const auto &result : ops[op]->results())
    text += " " + result->type.str();
  if (ops[op]->region())
    for (const auto &inner : ops[op]->region()->ops())
      text += "\n" + (inner->results().empty() ? "" : plainLine(*inner));
  if (use)
    text += "\n" + use->function->steps[op].launchFor(use->dims).kernel;
  return text;
}

std::string titleOf(const Op &op) {
  StringRef label = op.def().label ? op.def().label(op) : "";
  return op.mnemonic().str() + (op.mnemonic().contains(label) ? "" : " (" + label.str() + ")");
}

/// The types of values, each listed once with its count.
std::vector<std::string> typeLines(ArrayRef<const Value *> values) {
  std::vector<std::pair<std::string, int>> counted;
  for (const Value *value : values) {
    auto it = llvm::find_if(counted, [&](const auto &known) { return known.first == value->type.str(); });
    if (it == counted.end())
      counted.push_back({value->type.str(), 1});
    else
      ++it->second;
  }
  std::vector<std::string> lines;
  for (const auto &[type, count] : counted)
    lines.push_back((count > 1 ? std::to_string(count) + " × " : "") + type);
  return lines;
}

GraphNode GraphBuilder::makeNode(const Op &op, size_t index) const {
  GraphNode node;
  node.kind = use ? GraphNode::Kind::Kernel : GraphNode::Kind::Op;
  node.title = titleOf(op);
  node.hover = plainLine(op);
  std::vector<StringRef> constants;
  for (const Value *input : op.inputs())
    if (!isFlowing(*input))
      constants.push_back(withoutLayer(input->name));
  node.detail = llvm::join(constants, ", ");
  std::vector<const Value *> outputs;
  for (const auto &result : op.results())
    if (readers.count(result.get()) || llvm::is_contained(results, result.get()))
      outputs.push_back(result.get());
  node.outputs = typeLines(outputs);
  if (use) {
    const PlanStep &step = use->function->steps[index];
    node.kernel = step.launchFor(use->dims).kernel;
    const PlanKernel *kernel = plan->findKernel(node.kernel);
    node.title = kernel ? kernel->title : node.kernel; // a library has no record of the kernel
    node.detail = kernel ? kernel->variant() : "";
    if (op.region())
      node.inside = std::make_unique<Graph>(makeRegion(op));
  }
  return node;
}

/// The graph of a region's ops. Nodes list the names of values from outside.
Graph GraphBuilder::makeRegion(const Op &fused) const {
  Graph graph;
  std::map<const Value *, size_t> producer;
  for (const auto &op : fused.region()->ops()) {
    if (op->has(Trait::Terminator))
      continue;
    GraphNode node;
    node.title = titleOf(*op);
    node.hover = plainLine(*op) + " : " + op->result()->type.str();
    std::vector<StringRef> outer;
    std::set<size_t> sources;
    for (const Value *input : op->operands())
      if (auto it = producer.find(input); it != producer.end())
        sources.insert(it->second);
      else
        outer.push_back(withoutLayer(input->name));
    node.detail = llvm::join(outer, ", ");
    for (size_t source : sources)
      graph.edges.push_back({source, graph.nodes.size(), {}});
    producer[op->result()] = graph.nodes.size();
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

GraphNode GraphBuilder::makeLayers(const Repeat &repeat) const {
  size_t last = repeat.first + repeat.period;
  // Values that leave the first layer: every layer passes the corresponding ones on.
  std::vector<const Value *> leaving;
  for (size_t i = repeat.first; i < last; ++i)
    for (const auto &result : ops[i]->results())
      if (auto it = readers.find(result.get()); it != readers.end())
        if (llvm::any_of(it->second, [&](size_t reader) { return reader >= last; }))
          leaving.push_back(result.get());
  GraphNode node;
  node.kind = GraphNode::Kind::Layers;
  node.repeats = static_cast<int64_t>(repeat.count);
  node.title = std::to_string(repeat.count) + " ×";
  node.inside = std::make_unique<Graph>(makeGraph(repeat.first, last, leaving, {}));
  node.outputs = typeLines(leaving);
  return node;
}

GraphNode makePort(const Value &value) {
  GraphNode port;
  port.kind = GraphNode::Kind::Port;
  port.title = "%" + withoutLayer(value.name).str();
  return port;
}

Graph GraphBuilder::makeGraph(size_t first, size_t last, ArrayRef<const Value *> leaving, const Repeat &repeat) const {
  Graph graph;
  std::map<const Value *, size_t> producer; // node by value
  std::set<std::pair<size_t, size_t>> known;
  auto connect = [&](const Value *value, size_t to) {
    size_t from = producer.at(value);
    if (from != to && known.insert({from, to}).second)
      graph.edges.push_back({from, to, {}});
  };
  for (size_t i = first; i < last; ++i)
    for (const Value *input : inputs(*ops[i]))
      if (isFlowing(*input) && !producer.count(input) &&
          llvm::none_of(ArrayRef(ops).slice(first, last - first),
                        [&](const Op *op) { return op == input->definingOp(); })) {
        producer[input] = graph.nodes.size();
        graph.nodes.push_back(makePort(*input));
        graph.nodes.back().outputs = {input->type.str()};
      }
  for (size_t i = first; i < last; ++i) {
    bool isRepeated = i >= repeat.first && i < repeat.end();
    if (!isRepeated || i == repeat.first)
      graph.nodes.push_back(isRepeated ? makeLayers(repeat) : makeNode(*ops[i], i));
    size_t node = graph.nodes.size() - 1;
    for (const auto &result : ops[i]->results())
      producer[result.get()] = node;
    for (const Value *input : inputs(*ops[i]))
      if (isFlowing(*input))
        connect(input, node);
  }
  for (const Value *value : leaving) {
    graph.nodes.push_back(makePort(*value));
    // A result may also come from outside these ops: such a port has no edge.
    if (producer.count(value))
      connect(value, graph.nodes.size() - 1);
  }
  return graph;
}

Graph GraphBuilder::build() {
  std::vector<std::string> keys;
  for (size_t i = 0; i < ops.size(); ++i)
    keys.push_back(key(i));
  return makeGraph(0, ops.size(), results, findRepeat(keys));
}

} // namespace

Graph graphBeforeFusion(const Function &function) { return GraphBuilder(function, nullptr, nullptr).build(); }

Graph graphOfKernels(const Function &function, const FunctionUse &use, const Plan &plan) {
  return GraphBuilder(function, &use, &plan).build();
}

} // namespace kiln
