#include "base/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/suggest.h"

namespace lra {
namespace {

constexpr size_t kLargestYaml = 1 << 20;

ConfigTree from_node(const YAML::Node& node, const std::string& where, int depth) {
  const int line = node.Mark().line + 1;
  const std::string here = fmt::format("{} line {}", where, line);
  if (depth > 16) fail("config", "{}: nested deeper than 16 levels.", here);
  ConfigTree tree;
  tree.origin = here;
  if (node.IsScalar()) {
    tree.is_section = false;
    tree.value = node.Scalar();
  } else if (node.IsMap()) {
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) fail("config", "{}: a key must be a plain word.", here);
      const std::string& key = entry.first.Scalar();
      if (tree.find(key))
        fail("config", "{} line {}: the key '{}' appears twice.", where, entry.first.Mark().line + 1, key);
      tree.children.push_back({key, from_node(entry.second, where, depth + 1)});
    }
  } else if (node.IsNull()) {
    return tree;  // an empty section
  } else {
    fail("config", "{}: a list stands here; only sections and single values are known.", here);
  }
  return tree;
}

bool parse_number(const std::string& text, int64_t& value) {
  const char* end = text.data() + text.size();
  const auto [at, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc() && at == end) return true;
  double real = 0;  // 1e6 is an integer too
  const auto [at2, code2] = std::from_chars(text.data(), end, real);
  if (code2 != std::errc() || at2 != end || real != std::floor(real) || std::abs(real) > 9e15) return false;
  value = static_cast<int64_t>(real);
  return true;
}

void emit(const ConfigTree& tree, int indent, std::string& out) {
  for (const auto& [key, child] : tree.children) {
    out.append(static_cast<size_t>(indent), ' ');
    if (child.is_section) {
      out += key + (child.children.empty() ? ": {}\n" : ":\n");
      emit(child, indent + 2, out);
    } else {
      YAML::Emitter emitter;
      emitter.SetStringFormat(YAML::Auto);
      emitter << child.value;
      out += fmt::format("{}: {}\n", key, child.value.empty() ? "\"\"" : emitter.c_str());
    }
  }
}

}  // namespace

const ConfigTree* ConfigTree::find(std::string_view key) const {
  for (const auto& [name, child] : children) {
    if (name == key) return &child;
  }
  return nullptr;
}

ConfigTree& ConfigTree::child(std::string_view key) {
  for (auto& [name, child] : children) {
    if (name == key) return child;
  }
  children.push_back({std::string(key), {}});
  return children.back().tree;
}

ConfigTree parse_yaml(std::string_view text, const std::string& where) {
  if (text.size() > kLargestYaml)
    fail("config", "{}: {} bytes is too large for a configuration.", where, text.size());
  if (text.find('\0') != text.npos) fail("config", "{}: not a text file (it holds a zero byte).", where);
  try {
    const YAML::Node node = YAML::Load(std::string(text));
    if (!node.IsNull() && !node.IsMap())
      fail("config", "{}: expected sections and keys, found a single value or a list.", where);
    return from_node(node, where, 0);
  } catch (const YAML::Exception& e) {
    fail("config", "{} line {}: not valid YAML: {}.", where, e.mark.line + 1, e.msg);
  }
}

ConfigTree parse_assignment(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == assignment.npos || equals == 0) {
    fail("config", "--set '{}': expected KEY=VALUE, for example --set train.steps=100.", assignment);
  }
  const std::string origin = fmt::format("--set {}", assignment);
  ConfigTree root;
  ConfigTree* at = &root;
  std::string_view path = assignment.substr(0, equals);
  for (;;) {
    const size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    if (key.empty()) fail("config", "--set '{}': the key has an empty part.", assignment);
    at = &at->child(key);
    at->origin = origin;
    if (dot == path.npos) break;
    path.remove_prefix(dot + 1);
  }
  at->is_section = false;
  at->value = assignment.substr(equals + 1);
  return root;
}

void overlay(ConfigTree& base, const ConfigTree& top) {
  for (const auto& [key, child] : top.children) {
    ConfigTree& mine = base.child(key);
    if (!mine.origin.empty() && mine.is_section != child.is_section) {
      fail("config", "{}: '{}' is a {} here, but a {} in {}.", child.origin, key,
           child.is_section ? "section" : "single value", mine.is_section ? "section" : "single value",
           mine.origin);
    }
    mine.origin = child.origin;
    mine.is_section = child.is_section;
    if (child.is_section) {
      overlay(mine, child);
    } else {
      mine.value = child.value;
      mine.children.clear();
    }
  }
}

std::string to_yaml(const ConfigTree& tree) {
  std::string out;
  emit(tree, 0, out);
  return out;
}

std::string shortest(double value) { return fmt::format("{}", value); }

// ---- reading ----

ConfigReader::ConfigReader(const ConfigTree& tree, std::string path) : tree_(tree), path_(std::move(path)) {}

std::string ConfigReader::dotted(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const ConfigTree* ConfigReader::leaf(const char* key) {
  known_.emplace_back(key);
  const ConfigTree* found = tree_.find(key);
  if (found && found->is_section) {
    fail("config", "{}: '{}' is a section here, expected a single value.", found->origin, dotted(key));
  }
  return found;
}

void ConfigReader::integer(const char* key, int64_t& value, int64_t low, int64_t high, const char*) {
  const ConfigTree* found = leaf(key);
  if (!found) return;
  int64_t read = 0;
  if (!parse_number(found->value, read)) {
    fail("config", "{}: {} is '{}', expected a whole number.", found->origin, dotted(key), found->value);
  }
  if (read < low || read > high) {
    fail("config", "{}: {} is {}, expected {} to {}.", found->origin, dotted(key), read, low, high);
  }
  value = read;
}

void ConfigReader::real(const char* key, double& value, double low, double high, const char*) {
  const ConfigTree* found = leaf(key);
  if (!found) return;
  double read = 0;
  const char* end = found->value.data() + found->value.size();
  const auto [at, code] = std::from_chars(found->value.data(), end, read);
  if (code != std::errc() || at != end || !std::isfinite(read)) {
    fail("config", "{}: {} is '{}', expected a number.", found->origin, dotted(key), found->value);
  }
  if (read < low || read > high) {
    fail("config", "{}: {} is {}, expected {} to {}.", found->origin, dotted(key), read, low, high);
  }
  value = read;
}

void ConfigReader::flag(const char* key, bool& value, const char*) {
  const ConfigTree* found = leaf(key);
  if (!found) return;
  if (found->value != "true" && found->value != "false") {
    fail("config", "{}: {} is '{}', expected true or false.", found->origin, dotted(key), found->value);
  }
  value = found->value == "true";
}

void ConfigReader::text(const char* key, std::string& value, const char*) {
  if (const ConfigTree* found = leaf(key)) value = found->value;
}

void ConfigReader::choice(const char* key, std::string& value, const Choices& choices, const char*) {
  const ConfigTree* found = leaf(key);
  if (!found) return;
  if (std::find(choices.begin(), choices.end(), found->value) == choices.end()) {
    fail("config", "{}: {} is '{}'. {}", found->origin, dotted(key), found->value,
         suggestion(found->value, choices));
  }
  value = found->value;
}

void ConfigReader::section(const char* key, const std::function<void(Fields&)>& body, const char*) {
  known_.emplace_back(key);
  static const ConfigTree empty;
  const ConfigTree* found = tree_.find(key);
  if (found && !found->is_section) {
    fail("config", "{}: '{}' is the single value '{}', expected a section.", found->origin, dotted(key),
         found->value);
  }
  ConfigReader inner(found ? *found : empty, dotted(key));
  body(inner);
  inner.finish();
}

void ConfigReader::finish() const {
  for (const auto& [key, child] : tree_.children) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      fail("config", "{}: unknown key '{}'. {}", child.origin, dotted(key), suggestion(key, known_));
    }
  }
}

// ---- writing ----

void ConfigWriter::put(const char* key, std::string value) {
  ConfigTree& leaf = tree.child(key);
  leaf.is_section = false;
  leaf.value = std::move(value);
}
void ConfigWriter::integer(const char* key, int64_t& value, int64_t, int64_t, const char*) {
  put(key, std::to_string(value));
}
void ConfigWriter::real(const char* key, double& value, double, double, const char*) {
  put(key, shortest(value));
}
void ConfigWriter::flag(const char* key, bool& value, const char*) { put(key, value ? "true" : "false"); }
void ConfigWriter::text(const char* key, std::string& value, const char*) { put(key, value); }
void ConfigWriter::choice(const char* key, std::string& value, const Choices&, const char*) {
  put(key, value);
}
void ConfigWriter::section(const char* key, const std::function<void(Fields&)>& body, const char*) {
  ConfigWriter inner;
  body(inner);
  tree.child(key) = std::move(inner.tree);
}

// ---- describing ----

namespace {

class Describer : public Fields {
 public:
  std::vector<FieldInfo> fields;
  std::string prefix;
  void integer(const char* key, int64_t& value, int64_t low, int64_t high, const char* help) override {
    fields.push_back(
        {prefix + key, "integer", std::to_string(value), fmt::format("{} to {}", low, high), help});
  }
  void real(const char* key, double& value, double low, double high, const char* help) override {
    fields.push_back({prefix + key, "number", shortest(value), fmt::format("{} to {}", low, high), help});
  }
  void flag(const char* key, bool& value, const char* help) override {
    fields.push_back({prefix + key, "flag", value ? "true" : "false", "true or false", help});
  }
  void text(const char* key, std::string& value, const char* help) override {
    fields.push_back({prefix + key, "text", value, "", help});
  }
  void choice(const char* key, std::string& value, const Choices& choices, const char* help) override {
    fields.push_back({prefix + key, "choice", value, fmt::format("{}", fmt::join(choices, ", ")), help});
  }
  void section(const char* key, const std::function<void(Fields&)>& body, const char*) override {
    const std::string outer = prefix;
    prefix += std::string(key) + ".";
    body(*this);
    prefix = outer;
  }
};

}  // namespace

std::vector<FieldInfo> describe_fields(const std::function<void(Fields&)>& visit) {
  Describer describer;
  visit(describer);
  return std::move(describer.fields);
}

}  // namespace lra
