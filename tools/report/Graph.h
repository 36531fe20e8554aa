//===- Graph.h - a function as boxes and arrows ---------------------------===//
#pragma once

#include "tools/report/ReportedPlan.h"

namespace kiln {

struct Graph;

struct GraphNode {
  enum class Kind {
    Op,
    Kernel, ///< an op of its own, or a region with its ops inside
    Layers, ///< the ops of one layer, drawn once for `repeats` layers
    Port,   ///< an argument or a result
  };

  Kind kind = Kind::Op;
  std::string title, detail;        ///< two lines of text
  std::string hover;                ///< the op's line of IR
  std::string kernel;               ///< the kernel that runs it, if it is a plan's
  std::vector<std::string> outputs; ///< types of the values that other ops read
  int64_t repeats = 1;
  std::unique_ptr<Graph> inside;

  // Set by layoutGraph
  size_t rank = 0;
  double x = 0, y = 0, width = 0, height = 0; ///< pixels, of the upper left corner

  double middle() const { return x + width / 2; }
};

struct GraphEdge {
  size_t from = 0, to = 0;
  std::string path; ///< set by layoutGraph: data of an SVG path
};

/// Nodes in topological order.
struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;
  double left = 0; ///< x of the left edge: the middle of the ranks is 0
  double width = 0, height = 0;
};

/// The ops of a function as the front end made them. A function that exists only with kernels (@decode is derived from
/// @prefill) is shown with its regions dissolved.
Graph graphBeforeFusion(const Function &function);

/// The kernels of a plan's function, each with the ops that it was fused from inside.
Graph graphOfKernels(const Function &function, const FunctionUse &use, const Plan &plan);

/// An op as `%fc = add %fc_mm, %fc_b`, without the attributes that passes set for kernels and memory.
std::string plainLine(const Op &op);

/// Gives every node a place and every edge a path, from the top down.
void layoutGraph(Graph &graph);

// Sizes that layout and drawing share, in pixels; text is monospaced.
constexpr double graphCharacter = 6.65, graphLine = 14, graphPadding = 10;

} // namespace kiln
