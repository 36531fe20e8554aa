// A language model's function is a chain with a few parallel ops (queries, keys, values) and a few values that are read
// again further down (residuals). So each rank is centred below the one before, edges to the next rank are direct, and
// longer edges run through lanes on the right.
#include "tools/report/Graph.h"

#include "tools/report/Html.h"

namespace kiln {

namespace {

constexpr double columnGap = 14, rankGap = 20, laneGap = 11;

double textWidth(StringRef text) { return graphCharacter * static_cast<double>(text.size()); }

double labelWidth(const GraphNode &node) {
  double width = 0;
  for (const std::string &line : node.outputs)
    width = std::max(width, textWidth(line) + 8);
  return width;
}

void measure(GraphNode &node) {
  double lines = node.detail.empty() ? 1 : 2;
  node.width = std::max(textWidth(node.title), textWidth(node.detail)) + 2 * graphPadding;
  node.height = lines * graphLine + 10;
  if (node.kind == GraphNode::Kind::Port)
    node.height = graphLine + 6;
  if (!node.inside)
    return;
  layoutGraph(*node.inside);
  node.width = std::max(node.width, node.inside->width + 2 * graphPadding);
  node.height += node.inside->height + graphPadding;
}

class Layout {
public:
  explicit Layout(Graph &graph) : graph(graph) {}

  void run() {
    assignRanks();
    placeRanks();
    routeEdges();
    measureWhole();
  }

private:
  void assignRanks();
  double placeInRank(ArrayRef<size_t> rank);
  void placeRanks();
  void routeEdges();
  void routeLane(GraphEdge &edge, double x);
  std::string directPath(const GraphEdge &edge) const;
  void measureWhole();
  bool isPort(size_t node) const { return graph.nodes[node].kind == GraphNode::Kind::Port; }
  bool isRightmost(size_t node) const { return ranks[graph.nodes[node].rank].back() == node; }
  size_t span(const GraphEdge &edge) const { return graph.nodes[edge.to].rank - graph.nodes[edge.from].rank; }

  Graph &graph;
  std::vector<std::vector<size_t>> ranks;
  std::vector<double> top, bottom, belowLabels, right; ///< of each rank; right includes labels
};

void Layout::assignRanks() {
  std::vector<size_t> least(graph.nodes.size(), SIZE_MAX);
  // Edges are grouped by their target, in the order of nodes.
  for (const GraphEdge &edge : graph.edges)
    graph.nodes[edge.to].rank = std::max(graph.nodes[edge.to].rank, graph.nodes[edge.from].rank + 1);
  std::vector<bool> hasSource(graph.nodes.size());
  for (const GraphEdge &edge : graph.edges) {
    least[edge.from] = std::min(least[edge.from], graph.nodes[edge.to].rank);
    hasSource[edge.to] = true;
  }
  for (const auto &[i, node] : llvm::enumerate(graph.nodes)) {
    // An op without a source stands just before its first reader; ports stay at the top.
    if (!hasSource[i] && !isPort(i) && least[i] != SIZE_MAX)
      node.rank = least[i] - 1;
    if (ranks.size() <= node.rank)
      ranks.resize(node.rank + 1);
    ranks[node.rank].push_back(i);
  }
  // Ports stand to the right of the rank's ops.
  for (std::vector<size_t> &rank : ranks)
    llvm::stable_sort(rank, [&](size_t a, size_t b) { return isPort(a) < isPort(b); });
}

/// Places a rank's nodes from left to right. Returns the right edge, labels included.
double Layout::placeInRank(ArrayRef<size_t> rank) {
  double x = 0, first = 0, last = 0;
  for (size_t i : rank) {
    GraphNode &node = graph.nodes[i];
    node.x = x;
    // The label stands to the right of the edge, which leaves the node at its middle.
    x = std::max(x + node.width, node.middle() + labelWidth(node)) + columnGap;
    if (i == rank.front())
      first = node.middle();
    // Ports to the right of other nodes do not count for the middle of the rank.
    if (i == rank.front() || !isPort(i))
      last = node.middle();
  }
  double middle = (first + last) / 2;
  for (size_t i : rank)
    graph.nodes[i].x -= middle;
  return x - columnGap - middle;
}

void Layout::placeRanks() {
  double y = 0;
  for (const std::vector<size_t> &rank : ranks) {
    right.push_back(placeInRank(rank));
    double height = 0, labels = 0;
    for (size_t i : rank) {
      height = std::max(height, graph.nodes[i].height);
      labels = std::max(labels, static_cast<double>(graph.nodes[i].outputs.size()));
    }
    for (size_t i : rank)
      graph.nodes[i].y = y + (height - graph.nodes[i].height) / (isPort(i) ? 1 : 2);
    top.push_back(y);
    bottom.push_back(y + height);
    belowLabels.push_back(y + height + labels * 12 + 5);
    y += height + rankGap + labels * 12;
  }
  graph.height = bottom.empty() ? 0 : bottom.back();
}

std::string Layout::directPath(const GraphEdge &edge) const {
  const GraphNode &from = graph.nodes[edge.from], &to = graph.nodes[edge.to];
  double x1 = from.middle(), y1 = from.y + from.height, x2 = to.middle(), y2 = to.y;
  std::string start = "M" + coordinate(x1) + " " + coordinate(y1);
  if (std::abs(x1 - x2) < 1)
    return start + "V" + coordinate(y2);
  // The curve lies between the ranks, where no node is in the way.
  double end = top[to.rank], bend = std::max(y1, end - 20);
  std::string turn = coordinate(x1) + " " + coordinate(end) + " " + coordinate(x2) + " " + coordinate(bend);
  return start + "V" + coordinate(bend) + "C" + turn + " " + coordinate(x2) + " " + coordinate(end) + "V" +
         coordinate(y2);
}

void Layout::routeLane(GraphEdge &edge, double x) {
  const GraphNode &from = graph.nodes[edge.from], &to = graph.nodes[edge.to];
  auto point = [](double px, double py) { return coordinate(px) + " " + coordinate(py); };
  double startY = from.y + from.height / 2 + 4, endY = to.y + to.height / 2 - 4;
  std::string path = "M" + point(from.x + from.width, startY);
  if (!isRightmost(edge.from)) {
    startY = belowLabels[from.rank];
    path = "M" + point(from.middle(), from.y + from.height) + "V" + coordinate(startY);
  }
  bool entersTop = !isRightmost(edge.to);
  if (entersTop)
    endY = top[to.rank] - 10;
  path += "H" + coordinate(x - 5) + "q5 0 5 5V" + coordinate(endY - 5) + "q0 5 -5 5";
  path += entersTop ? "H" + coordinate(to.middle() + 6) + "V" + coordinate(to.y) : "H" + coordinate(to.x + to.width);
  edge.path = path;
}

void Layout::routeEdges() {
  std::vector<GraphEdge *> passing;
  for (GraphEdge &edge : graph.edges)
    if (span(edge) > 1)
      passing.push_back(&edge);
    else
      edge.path = directPath(edge);
  // Short edges run inside long ones.
  llvm::stable_sort(passing, [&](const GraphEdge *a, const GraphEdge *b) { return span(*a) < span(*b); });
  for (GraphEdge *edge : passing) {
    double x = 0;
    size_t first = graph.nodes[edge->from].rank, last = graph.nodes[edge->to].rank;
    for (size_t rank = first; rank <= last; ++rank)
      x = std::max(x, right[rank] + laneGap);
    for (size_t rank = first; rank <= last; ++rank)
      right[rank] = x;
    routeLane(*edge, x);
  }
}

void Layout::measureWhole() {
  double end = 0;
  for (const GraphNode &node : graph.nodes)
    graph.left = std::min(graph.left, node.x);
  for (double rank : right)
    end = std::max(end, rank);
  graph.width = end - graph.left;
}

} // namespace

void layoutGraph(Graph &graph) {
  for (GraphNode &node : graph.nodes)
    measure(node);
  Layout(graph).run();
}

} // namespace kiln
