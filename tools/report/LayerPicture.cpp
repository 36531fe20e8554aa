#include "tools/report/Report.h"

#include "tools/report/Page.h"
#include "tools/report/Sections.h"

#include "support/Diagnostic.h"

namespace kiln {

/// The ops of one layer; null if the graph has no layers that are drawn once.
static const Graph *layerOf(const Graph &graph) {
  for (const GraphNode &node : graph.nodes)
    if (node.kind == GraphNode::Kind::Layers)
      return node.inside.get();
  return nullptr;
}

namespace {
/// Part of the picture.
struct Panel {
  std::string title;
  const Graph *layer;
};
} // namespace

static constexpr double panelGap = 40, titleHeight = 30;

static std::string drawPanels(ArrayRef<Panel> panels) {
  double width = panelGap * static_cast<double>(panels.size() - 1) + 2 * graphPadding, height = 0;
  for (const Panel &panel : panels) {
    width += panel.layer->width;
    height = std::max(height, panel.layer->height);
  }
  height += titleHeight + 2 * graphPadding;
  Html html;
  {
    auto svg = html.in("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                               {"class", "graph"},
                               {"width", coordinate(width)},
                               {"height", coordinate(height)},
                               {"viewBox", "0 0 " + coordinate(width) + " " + coordinate(height)}});
    html.line().element("style", {}, pageFile("picture.css")).line();
    {
      auto marker = html.in("marker", {{"id", "arrow"},
                                       {"viewBox", "0 0 8 8"},
                                       {"refX", "7"},
                                       {"refY", "4"},
                                       {"markerWidth", "7"},
                                       {"markerHeight", "7"},
                                       {"orient", "auto"}});
      html.element("path", {{"d", "M0 1L7 4L0 7z"}});
    }
    html.line().element("rect", {{"class", "paper"}, {"width", coordinate(width)}, {"height", coordinate(height)}});
    double x = graphPadding;
    for (const Panel &panel : panels) {
      drawText(html.line(), "title", x, graphPadding + 13, panel.title);
      drawGraph(html.line(), *panel.layer, x - panel.layer->left, graphPadding + titleHeight, nullptr);
      x += panel.layer->width + panelGap;
    }
    html.line();
  }
  return html.line().take();
}

Expected<std::string> writeLayerPicture(const ReportedPlan &reported) {
  const std::string name = entryName(Entry::Prefill).str();
  const FunctionUse *use = reported.findUse(name);
  const Function *planned = reported.plannedFunction(name), *original = reported.graph->findFunction(name);
  if (!use || !planned || !original)
    return makeFileError(reported.directory, "expected a plan with @" + name + ", of which a layer can be drawn");
  Graph before = graphBeforeFusion(*original), after = graphOfKernels(*planned, *use, reported.plan);
  layoutGraph(before);
  layoutGraph(after);
  if (!layerOf(before) || !layerOf(after))
    return makeFileError(reported.directory, "expected a model of several equal layers, of which one can be drawn");
  auto countIn = [](const Graph &layer) {
    auto isPort = [](const GraphNode &node) { return node.kind == GraphNode::Kind::Port; };
    return std::to_string(llvm::count_if(layer.nodes, std::not_fn(isPort)));
  };
  return drawPanels({{"A layer as the front end writes it: " + countIn(*layerOf(before)) + " ops", layerOf(before)},
                     {"The same, fused: " + countIn(*layerOf(after)) + " kernels", layerOf(after)}});
}

} // namespace kiln
