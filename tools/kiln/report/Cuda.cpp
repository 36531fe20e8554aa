#include "Sections.h"

namespace kiln {

namespace {

bool isWordStart(char c) { return llvm::isAlpha(c) || c == '_'; }
bool isWordPart(char c) { return llvm::isAlnum(c) || c == '_'; }

/// `fc` of `%fc = add %fc_mm, %fc_b`; nothing of other text.
StringRef resultName(StringRef text) {
  text = text.ltrim();
  if (!text.consume_front("%"))
    return "";
  auto [name, rest] = text.split('=');
  return rest.empty() ? "" : name.rtrim();
}

/// The comment that ends a line, from its slashes; no string of generated code holds any.
std::pair<StringRef, StringRef> splitComment(StringRef line) {
  size_t at = line.find("//");
  return at == StringRef::npos ? std::pair(line, StringRef()) : std::pair(line.take_front(at), line.drop_front(at));
}

bool endsStatement(StringRef code) {
  StringRef text = code.rtrim();
  return text.empty() || text.ends_with(";") || text.ends_with("{") || text.ends_with("}");
}

/// For each line the op that it comes from, or nothing.
class LineOps {
public:
  LineOps(ArrayRef<StringRef> lines, ArrayRef<StringRef> ir) : lines(lines), names(lines.size()) {
    for (StringRef line : ir)
      ops.insert(resultName(line));
    followComments();
    StringRef whole = templateOp(ir);
    for (size_t i = 0; i < lines.size(); ++i)
      if (!whole.empty() && lines[i].contains("<Config>("))
        i = claim(i, whole);
  }

  ArrayRef<StringRef> get() const { return names; }

private:
  void followComments() {
    for (size_t i = 0; i < lines.size(); ++i) {
      auto [code, comment] = splitComment(lines[i]);
      StringRef op = resultName(comment.ltrim("/"));
      if (!ops.count(op))
        continue;
      bool isHead = comment.starts_with("//   %") && code.empty();
      names[i] = op;
      if (!isHead && !code.trim().empty())
        written.insert(op), claim(i, op);
      else if (!isHead && i + 1 < lines.size() && splitComment(lines[i + 1]).second.empty())
        written.insert(op), claim(i + 1, op);
    }
  }

  /// The statement that starts at a line, up to a line with a comment of its own. Returns its last line.
  size_t claim(size_t first, StringRef op) {
    size_t i = first;
    names[i] = op;
    while (!endsStatement(splitComment(lines[i]).first) && i + 1 < lines.size() &&
           splitComment(lines[i + 1]).second.empty())
      names[++i] = op;
    return i;
  }

  /// The first op that no statement is about: the template computes it.
  StringRef templateOp(ArrayRef<StringRef> ir) const {
    for (StringRef line : ir)
      if (StringRef name = resultName(line); !written.count(name) && isProduct(line))
        return name;
    for (StringRef line : ir)
      if (StringRef name = resultName(line); !written.count(name))
        return name;
    return "";
  }

  /// Of a kernel's several such ops the one that it is named after.
  static bool isProduct(StringRef line) {
    StringRef operation = line.split('=').second.ltrim();
    return operation.starts_with("matmul ") || operation.starts_with("qk ");
  }

  ArrayRef<StringRef> lines;
  std::set<StringRef> ops, written;
  std::vector<StringRef> names;
};

StringRef classOf(StringRef word) {
  static const std::set<StringRef> keywords = {"auto",       "break",      "case",
                                               "const",      "constexpr",  "continue",
                                               "do",         "else",       "extern",
                                               "false",      "for",        "if",
                                               "inline",     "namespace",  "operator",
                                               "return",     "static",     "struct",
                                               "switch",     "template",   "true",
                                               "typename",   "using",      "while",
                                               "__global__", "__device__", "__launch_bounds__",
                                               "KILN_DEVICE"};
  static const std::set<StringRef> types = {"bf16", "bool", "double", "f16",      "float", "i32", "i64",
                                            "int",  "u32",  "u64",    "unsigned", "void",  "Vec"};
  return keywords.count(word) ? "k" : types.count(word) ? "t" : llvm::isDigit(word[0]) ? "n" : "";
}

/// How many characters a word, number or string at the start of `code` has; 0: none of them is there.
size_t tokenLength(StringRef code) {
  if (isWordStart(code[0]))
    return code.take_while(isWordPart).size();
  if (llvm::isDigit(code[0]))
    return code.take_while([](char c) { return isWordPart(c) || c == '.'; }).size();
  if (code[0] != '"')
    return 0;
  size_t end = code.find('"', 1);
  return end == StringRef::npos ? code.size() : end + 1;
}

void writeCode(Html &html, StringRef code) {
  if (code.starts_with("#")) {
    auto [directive, rest] = code.split(' ');
    html.element("span", {{"class", "k"}}, directive).text(rest.empty() ? "" : " ");
    code = rest;
  }
  size_t plain = 0; // of characters before the next token
  while (plain < code.size()) {
    size_t length = tokenLength(code.drop_front(plain));
    StringRef token = code.substr(plain, length);
    StringRef name = length == 0 ? "" : token.starts_with("\"") ? "s" : classOf(token);
    if (name.empty()) {
      plain += std::max<size_t>(1, length);
      continue;
    }
    html.text(code.take_front(plain)).element("span", {{"class", name.str()}}, token);
    code = code.drop_front(plain + length);
    plain = 0;
  }
  html.text(code);
}

} // namespace

std::vector<StringRef> irOf(StringRef source) {
  std::vector<StringRef> lines;
  while (source.starts_with("//")) {
    auto [line, rest] = source.split('\n');
    if (line.consume_front("//   ") && !resultName(line).empty())
      lines.push_back(line);
    source = rest;
  }
  return lines;
}

void writeCuda(Html &html, StringRef source) {
  SmallVector<StringRef, 64> lines;
  source.rtrim('\n').split(lines, '\n');
  LineOps ops(lines, irOf(source));
  auto block = html.in("pre", {{"class", "cuda"}, {"tabindex", "0"}, {"aria-label", "CUDA"}});
  auto code = html.in("code");
  for (const auto &[line, op] : llvm::zip(lines, ops.get())) {
    Html::Attributes attributes{{"class", "line"}};
    if (!op.empty())
      attributes.push_back({"data-op", op.str()});
    auto scope = html.in("span", attributes);
    auto [text, comment] = splitComment(line);
    writeCode(html, text);
    if (!comment.empty())
      html.element("span", {{"class", "c"}}, comment);
    html.line();
  }
}

} // namespace kiln
