#include "tools/report/Graph.h"
#include "tools/report/Sections.h"

namespace kiln {

namespace {

class GraphPicture {
public:
  GraphPicture(Html &html, const Side *side) : html(html), side(side) {}

  void drawInside(const Graph &graph, double x, double y) {
    auto group = html.in("g", {{"transform", "translate(" + coordinate(x) + "," + coordinate(y) + ")"}});
    for (const GraphEdge &edge : graph.edges)
      html.element("path", {{"class", "edge"}, {"d", edge.path}, {"marker-end", "url(#arrow)"}});
    for (const GraphNode &node : graph.nodes) {
      drawNode(node);
      for (const auto &[i, line] : llvm::enumerate(node.outputs))
        drawText(html, "type", node.middle() + 5, node.y + node.height + 12 + 12 * static_cast<double>(i), line);
    }
  }

private:
  void drawNode(const GraphNode &node) {
    static constexpr StringRef names[] = {"op", "kernel", "layers", "port"};
    auto group = html.in("g", {{"class", names[static_cast<int>(node.kind)].str()}});
    if (!node.hover.empty())
      html.element("title", {}, node.hover);
    html.element("rect", {{"x", coordinate(node.x)},
                          {"y", coordinate(node.y)},
                          {"width", coordinate(node.width)},
                          {"height", coordinate(node.height)},
                          {"rx", node.kind == GraphNode::Kind::Port ? "10" : "3"}});
    if (side && side->reported.plan.findKernel(node.kernel)) {
      auto link = html.in("a", {{"href", "#" + side->kernelId(node.kernel)}});
      drawHead(node);
    } else {
      drawHead(node);
    }
    if (node.inside) {
      double x = node.middle() - node.inside->width / 2 - node.inside->left;
      drawInside(*node.inside, x, node.y + node.height - node.inside->height - graphPadding);
    }
  }

  void drawHead(const GraphNode &node) {
    double y = node.y + graphLine + (node.kind == GraphNode::Kind::Port ? 1 : 3);
    drawText(html, "name", node.middle(), y, node.title);
    if (!node.detail.empty())
      drawText(html, "detail", node.middle(), y + graphLine, node.detail);
  }

  Html &html;
  const Side *side;
};

void drawPicture(Html &html, const Side &side, Graph graph, const Twine &title) {
  layoutGraph(graph);
  double width = graph.width + 2 * graphPadding, height = graph.height + 2 * graphPadding;
  auto svg = html.in("svg", {{"class", "graph"},
                             {"role", "group"},
                             {"aria-label", title.str()},
                             {"width", coordinate(width)},
                             {"height", coordinate(height)},
                             {"viewBox", "0 0 " + coordinate(width) + " " + coordinate(height)}});
  drawGraph(html, graph, graphPadding - graph.left, graphPadding, &side);
}

/// Draws the graph before fusion: the function of the front end's module, or else the plan's with its regions replaced
/// by their ops.
void writeBefore(Html &html, const Side &side, const FunctionUse &use, const Function &planned) {
  const std::string &name = use.function->name;
  const Function *original = side.reported.graph->findFunction(name);
  Graph graph = graphBeforeFusion(original ? *original : planned);
  auto figure = html.in("figure");
  {
    auto caption = html.in("figcaption");
    html.element("strong", {}, "Before fusion");
    html.text(original ? "" : ": derived from another function by passes, so these are its ops after them");
  }
  auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
  drawPicture(html, side, std::move(graph), "@" + name + " before fusion");
}

void writeAfter(Html &html, const Side &side, const FunctionUse &use, const Function &planned) {
  auto figure = html.in("figure");
  {
    auto caption = html.in("figcaption");
    html.element("strong", {}, "After fusion");
    html.text(formatv(": {0} launches", use.total.count.launches).str());
  }
  auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
  drawPicture(html, side, graphOfKernels(planned, use, side.reported.plan), "@" + use.function->name + " after fusion");
}

void writeFunction(Html &html, const Side &side, const FunctionUse &use, bool isPair) {
  const Function *planned = side.reported.plannedFunction(use.function->name);
  if (!planned)
    return;
  if (!isPair) {
    writeBefore(html, side, use, *planned);
    return writeAfter(html, side, use, *planned);
  }
  auto column = html.in("div");
  html.element("h4", {}, side.letter() + ": " + side.label);
  writeAfter(html, side, use, *planned);
  auto details = html.in("details");
  html.element("summary", {}, "Before fusion");
  writeBefore(html, side, use, *planned);
}

} // namespace

void drawGraph(Html &html, const Graph &graph, double x, double y, const Side *side) {
  GraphPicture(html, side).drawInside(graph, x, y);
}

void writeGraphs(Html &html, ArrayRef<Side> sides) {
  auto section = html.in("section", {{"id", "graphs"}});
  html.element("h2", {}, "Graphs");
  html.element("p", {},
               "An arrow is a tensor, its type below the op that makes it. A layer is drawn once. Names below an op "
               "are weights, states or values from outside its kernel. A kernel's name leads to the kernel.");
  bool isFirst = true;
  std::set<StringRef> done;
  for (const Side &side : sides)
    for (const FunctionUse &use : side.reported.functions) {
      StringRef name = use.function->name;
      if (!side.reported.plannedFunction(name) || !done.insert(name).second)
        continue;
      auto details = html.in("details", isFirst ? Html::Attributes{{"open", ""}, {"class", "part"}}
                                                : Html::Attributes{{"class", "part"}});
      isFirst = false;
      html.element("summary", {}, "@" + name);
      auto columns = html.in("div", {{"class", "columns"}});
      for (const Side &each : sides)
        if (const FunctionUse *own = each.reported.findUse(name))
          writeFunction(html, each, *own, sides.size() > 1);
    }
}

} // namespace kiln
