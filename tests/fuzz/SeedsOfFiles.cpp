#include "Seeds.h"

#include "support/files/File.h"

#include <cstring>

namespace kiln {

namespace {

constexpr StringRef sourceTree = KILN_SOURCE_DIR;

std::string readSource(StringRef path) { return cantFail(readFile(path)); }
std::string readSource(StringRef folder, StringRef name) {
  return readSource((sourceTree + "/" + folder + "/" + name).str());
}

/// The passes that a test runs on its file, in the form that the target pipeline takes.
std::string passesOf(StringRef text) {
  StringRef passes = text.split("--passes=").second;
  if (passes.consume_front("'"))
    passes = passes.take_until([](char c) { return c == '\''; });
  else
    passes = passes.take_until([](char c) { return llvm::isSpace(c); });
  return passes.empty() ? "" : "// --passes='" + passes.str() + "'\n";
}

/// The text without whole-line comments, since changing them has no effect.
std::string withoutComments(StringRef text) {
  std::string code;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    if (!line.ltrim().starts_with("//"))
      code += line.str() + "\n";
  }
  return code;
}

/// Every file below a folder of the source tree whose name has this ending, in order.
std::vector<std::string> sourceFiles(StringRef folder, StringRef ending) {
  std::vector<std::string> files;
  std::error_code error;
  for (llvm::sys::fs::recursive_directory_iterator it(sourceTree + "/" + folder, error), end; it != end && !error;
       it.increment(error))
    if (StringRef(it->path()).ends_with(ending))
      files.push_back(it->path());
  llvm::sort(files);
  return files;
}

/// The pieces of a text between lines with `// -----`.
std::vector<std::string> piecesOf(StringRef text) {
  std::vector<std::string> pieces(1);
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    if (line.starts_with("// -----"))
      pieces.emplace_back();
    else
      pieces.back() += line.str() + "\n";
  }
  return pieces;
}

void addConfigs(SeedWriter &seeds) {
  for (const std::string &path : sourceFiles("graphs", ".toml"))
    if (!StringRef(path).contains("/targets/"))
      seeds.add("config", llvm::sys::path::filename(path), readSource(path));
  seeds.add("config", "config.json", readSource("graphs/shakespeare-5m", "config.json"));
  seeds.add("requests", "prompts.jsonl", readSource("tests/data", "prompts.jsonl"));
}

void addTokenizers(SeedWriter &seeds) {
  std::string vocabulary = readSource("graphs/shakespeare-5m", "vocab.json");
  std::string merges = readSource("graphs/shakespeare-5m", "merges.txt");
  seeds.add("tokenizer-files", "shakespeare-5m", vocabulary + "\n---\n" + merges);
  std::string small = R"({"<bytes>":0,"to":256,"be":257,"tob":258,"tobe":259,"<|endoftext|>":260})";
  seeds.add("tokenizer-files", "pair", small + "\n---\n#version: 0.2\nt o\nb e\nto b\nto be\n");
  seeds.add("tokenizer-files", "added", small + "\n---\nt o\n---\n{\"<pad>\": 261, \" be\": 262}");
  std::string model = R"("model":{"type":"BPE","dropout":null,"vocab":)" + small;
  std::string rest = R"(,"added_tokens":[{"id":260,"content":"<|endoftext|>","lstrip":false}],"normalizer":null,)"
                     R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
                     R"("post_processor":{"type":"ByteLevel"}})";
  seeds.add("tokenizer-files", "json", "{" + model + R"(,"merges":["t o",["b","e"]]})" + rest);

  std::string text = readSource("tests/data", "eval.txt");
  for (size_t at = 0; at < std::min<size_t>(text.size(), 2000); at += 200)
    seeds.add("tokenizer", "eval-" + std::to_string(at), StringRef(text).substr(at, 200));
}

/// A file in the format of runtime/weights/Safetensors.h.
std::string safetensors(StringRef header, size_t dataSize) {
  std::string file(8, '\0');
  uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  file += header;
  for (size_t i = 0; i < dataSize; ++i)
    file += static_cast<char>(i * 37 + 11);
  return file;
}

void addSafetensors(SeedWriter &seeds) {
  seeds.add("safetensors", "none", safetensors("{}", 0));
  seeds.add("safetensors", "types",
            safetensors(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                        R"("b":{"dtype":"BF16","shape":[5],"data_offsets":[24,34]},)"
                        R"("c":{"dtype":"F16","shape":[],"data_offsets":[34,36]},)"
                        R"("d":{"dtype":"I64","shape":[1],"data_offsets":[36,44]},)"
                        R"("e":{"dtype":"F32","shape":[4,0],"data_offsets":[44,44]}})",
                        44));
  seeds.add("safetensors", "gpt2",
            safetensors(R"({"transformer.h.0.attn.bias":{"dtype":"F32","shape":[1,1,2,2],"data_offsets":[0,16]},)"
                        R"("transformer.h.0.ln_1.weight":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},)"
                        R"("wte.weight":{"dtype":"F16","shape":[3,2],"data_offsets":[24,36]}}   )",
                        36));
  seeds.add("safetensors", "index",
            R"({"metadata":{"total_size":24},"weight_map":{"a":"1.safetensors","transformer.b":"2"}})");
  // A real header whose tensors are missing.
  std::string real = readSource("graphs/shakespeare-5m", "model.safetensors");
  uint64_t length;
  std::memcpy(&length, real.data(), 8);
  seeds.add("safetensors", "shakespeare-5m", StringRef(real).take_front(8 + length));
}

/// The words of a command line, split like a shell does, as far as pages need it.
std::string argumentLines(StringRef command) {
  std::string lines;
  char quote = 0;
  for (char c : command) {
    if (c == quote || (!quote && (c == '"' || c == '\'')))
      quote = quote ? 0 : c;
    else
      lines += c == ' ' && !quote ? '\n' : c;
  }
  return lines;
}

void addCommandLines(SeedWriter &seeds) {
  size_t count = 0;
  for (const std::string &path : sourceFiles("docs", ".md")) {
    std::string text = readSource(path);
    SmallVector<StringRef, 256> lines;
    StringRef(text).split(lines, '\n');
    for (StringRef line : lines) {
      line.consume_front("$ ");
      line.consume_front("build/release/bin/");
      if (line.consume_front("kiln "))
        seeds.add("command-line", "docs-" + std::to_string(count++), argumentLines(line.split(" #").first.rtrim()));
    }
  }
}

} // namespace

std::vector<TestedModule> testedModules() {
  std::vector<TestedModule> modules;
  for (StringRef folder : {"tests/ir", "tests/ops", "tests/passes", "tests/codegen", "tests/tools/kiln-opt"})
    for (const std::string &path : sourceFiles(folder, ".kiln")) {
      std::string text = readSource(path), name = StringRef(path).drop_front(sourceTree.size() + 7).str();
      std::replace(name.begin(), name.end(), '/', '-');
      for (const auto &[i, piece] : llvm::enumerate(piecesOf(text)))
        modules.push_back({name + "-" + std::to_string(i), withoutComments(piece), passesOf(text)});
    }
  return modules;
}

void addSeedsOfFiles(SeedWriter &seeds) {
  for (const TestedModule &module : testedModules())
    seeds.add("ir", module.name, module.text);
  seeds.add("ir", "comments", readSource("tests/ir", "comments.kiln"));
  addConfigs(seeds);
  addTokenizers(seeds);
  addSafetensors(seeds);
  addCommandLines(seeds);
}

} // namespace kiln
