#include "tools/report/Sections.h"

#include "ir/Builder.h"

namespace kiln {

namespace {

/// A range of the arena during a range of steps.
struct Block {
  std::string name, kind;
  int64_t first = 0, last = 0;
  int64_t offset = 0, bytes = 0;
};

std::vector<Block> blocksOf(const FunctionUse &use) {
  std::vector<Block> blocks;
  // A result is live past the last step.
  auto last = static_cast<int64_t>(use.function->steps.size()) - 1;
  for (const PlanBuffer &buffer : use.function->buffers)
    blocks.push_back({buffer.tensor.name, "buffer", buffer.first, std::min(buffer.last, last), use.value(buffer.offset),
                      use.value(buffer.tensor.bytes())});
  for (const auto &[i, step] : llvm::enumerate(use.function->steps))
    if (step.workspace) {
      auto at = static_cast<int64_t>(i);
      blocks.push_back({"scratch of step " + std::to_string(i), "scratch", at, at, use.value(step.workspace->offset),
                        use.value(step.workspace->bytes)});
    }
  return blocks;
}

std::string describe(const Block &block) {
  std::string steps = block.first == block.last ? "step " + std::to_string(block.first)
                                                : formatv("steps {0} to {1}", block.first, block.last).str();
  return formatv("{0}: {1}, {2}, at {3}", block.name, bytesText(block.bytes), steps, block.offset);
}

class MemoryPicture {
public:
  MemoryPicture(Html &html, const FunctionUse &use)
      : html(html), use(use), blocks(blocksOf(use)), arena(use.value(use.function->arena)),
        live(use.value(use.function->live)), steps(use.function->steps.size()) {}

  void draw() {
    std::string title = formatv("Arena of @{0}: {1} buffers over {2} steps, peak {3}", use.function->name,
                                blocks.size(), steps, bytesText(arena));
    auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
    auto svg = html.in("svg", {{"role", "img"}, {"aria-label", title}, {"viewBox", "0 0 640 300"}});
    drawAxes();
    for (const auto &[i, block] : llvm::enumerate(blocks))
      drawBlock(block, i);
    drawLevel("peak", arena, "arena " + bytesText(arena));
    if (live < arena)
      drawLevel("bound", live, "");
  }

  void writeTable() {
    auto details = html.in("details");
    html.element("summary", {}, "Buffers");
    auto frame = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
    auto table = html.in("table");
    writeHead(html, {"buffer", "bytes", "offset", "steps"});
    auto body = html.in("tbody");
    for (const Block &block : blocks) {
      auto row = html.in("tr");
      html.element("th", {{"scope", "row"}}, block.name);
      html.element("td", {{"class", "number"}}, Twine(block.bytes));
      html.element("td", {{"class", "number"}}, Twine(block.offset));
      html.element("td", {{"class", "number"}}, formatv("{0}–{1}", block.first, block.last).str());
    }
  }

private:
  static constexpr double left = 8, right = 632, top = 20, bottom = 272;

  double xOf(int64_t step) const {
    return left + (right - left) * static_cast<double>(step) / static_cast<double>(std::max<size_t>(1, steps));
  }
  double yOf(int64_t address) const {
    return bottom - (bottom - top) * static_cast<double>(address) / static_cast<double>(std::max<int64_t>(1, arena));
  }

  void drawAxes() {
    drawLine(html, "axis", left, bottom, right, bottom);
    size_t every = std::max<size_t>(1, (steps + 9) / 10);
    for (size_t step = 0; step < steps; step += every) {
      double x = xOf(static_cast<int64_t>(step));
      drawLine(html, "axis", x, bottom, x, bottom + 4);
      drawText(html, "tick", x, bottom + 16, Twine(step));
    }
    drawText(html, "label", right, bottom + 26, "step");
  }

  void drawBlock(const Block &block, size_t index) {
    double x = xOf(block.first), width = xOf(block.last + 1) - x;
    double y = yOf(block.offset + block.bytes), height = yOf(block.offset) - y;
    auto group = html.in("g", {{"class", block.kind + " shade" + std::to_string(index % 3)}});
    html.element("title", {}, describe(block));
    html.element("rect", {{"x", coordinate(x)},
                          {"y", coordinate(y)},
                          {"width", coordinate(std::max(0.5, width - 1))},
                          {"height", coordinate(std::max(0.5, height - 1))}});
    StringRef name = withoutLayer(block.name);
    if (width > 6.2 * static_cast<double>(name.size()) + 6 && height > 14)
      drawText(html, "name", x + width / 2, y + height / 2 + 4, name);
  }

  void drawLevel(StringRef name, int64_t address, const Twine &text) {
    drawLine(html, name, left, yOf(address), right, yOf(address));
    drawText(html, "label", right, yOf(address) - 5, text);
  }

  Html &html;
  const FunctionUse &use;
  std::vector<Block> blocks;
  int64_t arena, live;
  size_t steps;
};

void writeArena(Html &html, const Side &side, const FunctionUse &use, bool isPair) {
  auto figure = html.in("figure", {{"class", "memory"}});
  {
    auto caption = html.in("figcaption");
    html.element("strong", {}, use.label);
    html.text((isPair ? " of " + side.letter() : "") + ": arena ");
    writeBytes(html, use.value(use.function->arena));
    html.text(", at least ");
    writeBytes(html, use.value(use.function->live));
  }
  MemoryPicture picture(html, use);
  picture.draw();
  picture.writeTable();
}

} // namespace

void writeMemory(Html &html, ArrayRef<Side> sides) {
  auto section = html.in("section", {{"id", "memory"}});
  html.element("h2", {}, "Memory");
  html.element("p", {},
               "The arena over the steps of a call: a rectangle is a buffer, as long as it must not be overwritten, at "
               "its address; scratch of a single step has a colour of its own. The dashed line is the least that any "
               "plan can do with: the largest set of bytes that are live together.");
  auto columns = html.in("div", {{"class", "columns"}});
  std::set<StringRef> done;
  for (const Side &side : sides)
    for (const FunctionUse &use : side.reported.functions)
      if (use.value(use.function->arena) && done.insert(use.function->name).second)
        for (const Side &each : sides)
          if (const FunctionUse *own = each.reported.findUse(use.function->name))
            writeArena(html, each, *own, sides.size() > 1);
}

} // namespace kiln
