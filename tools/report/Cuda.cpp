#include "tools/report/Sections.h"

namespace kiln {

namespace {

bool isWordStart(char c) { return llvm::isAlpha(c) || c == '_'; }
bool isWordPart(char c) { return llvm::isAlnum(c) || c == '_'; }

/// Splits a line before its comment. Strings of generated code contain no `//`.
std::pair<StringRef, StringRef> splitComment(StringRef line) {
  size_t at = line.find("//");
  return at == StringRef::npos ? std::pair(line, StringRef()) : std::pair(line.take_front(at), line.drop_front(at));
}

/// For each line of a source, the ops that it implements, separated by spaces.
std::vector<std::string> opsOfLines(ArrayRef<PlanKernelOp> ops, size_t lines) {
  std::vector<std::string> names(lines);
  for (const PlanKernelOp &op : ops)
    for (int64_t line : op.lines) {
      std::string &own = names[static_cast<size_t>(line - 1)];
      own += (own.empty() ? "" : " ") + op.value;
    }
  return names;
}

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

/// The length of the word, number or string at the start of `code`; 0 if there is none.
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
  size_t plain = 0; // length of the characters before the next token
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

void writeCuda(Html &html, StringRef source, ArrayRef<PlanKernelOp> ops) {
  SmallVector<StringRef, 64> lines;
  source.rtrim('\n').split(lines, '\n');
  auto block = html.in("pre", {{"class", "cuda"}, {"tabindex", "0"}, {"aria-label", "CUDA"}});
  auto code = html.in("code");
  for (const auto &[line, op] : llvm::zip(lines, opsOfLines(ops, lines.size()))) {
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
