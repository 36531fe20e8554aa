#include "tools/report/Sections.h"

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

/// For each line the ops that it comes from, separated by spaces.
class LineOps {
public:
  LineOps(ArrayRef<StringRef> lines, ArrayRef<StringRef> ir) : lines(lines), names(lines.size()) {
    for (StringRef line : ir)
      ops.push_back(resultName(line));
    for (size_t i = 0; i < lines.size(); ++i)
      followComment(i);
    // What no statement is about the template computes.
    llvm::erase_if(ops, [&](StringRef op) { return isCommented.count(op); });
    std::string whole = llvm::join(ops, " ");
    for (size_t i = 0; i < lines.size(); ++i)
      if (!whole.empty() && lines[i].contains("<Config>("))
        claim(i, whole);
  }

  ArrayRef<std::string> get() const { return names; }

private:
  void followComment(size_t i) {
    auto [code, comment] = splitComment(lines[i]);
    StringRef op = resultName(comment.ltrim("/"));
    if (!llvm::is_contained(ops, op))
      return;
    names[i] = op.str();
    bool isHead = comment.starts_with("//   %") && code.empty();
    if (isHead)
      return;
    isCommented.insert(op);
    if (!code.trim().empty())
      claim(i, op);
    else if (i + 1 < lines.size() && splitComment(lines[i + 1]).second.empty())
      claim(i + 1, op);
  }

  /// The statement that starts at a line, up to a line with a comment of its own.
  void claim(size_t i, StringRef op) {
    names[i] = op.str();
    while (!endsStatement(splitComment(lines[i]).first) && i + 1 < lines.size() &&
           splitComment(lines[i + 1]).second.empty())
      names[++i] = op.str();
  }

  ArrayRef<StringRef> lines;
  std::vector<StringRef> ops;
  std::set<StringRef> isCommented;
  std::vector<std::string> names;
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
      attributes.push_back({"data-op", op});
    auto scope = html.in("span", attributes);
    auto [text, comment] = splitComment(line);
    writeCode(html, text);
    if (!comment.empty())
      html.element("span", {{"class", "c"}}, comment);
    html.line();
  }
}

} // namespace kiln
