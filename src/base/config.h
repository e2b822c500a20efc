// Configuration in layers: struct defaults < preset < --config FILE < --set a.b=c.
//
// A `ConfigTree` is YAML whose every value remembers where it came from, so that an error can name file and
// line. A config struct lists its fields once, in `visit`; reading with checks, writing the resolved file and
// the help texts all come from that list:
//
//   struct TrainConfig {
//     int64_t steps = 5000;
//     std::string schedule = "rsqrt";
//     void visit(Fields& f) {
//       f.integer("steps", steps, 1, 1'000'000'000, "optimiser steps");
//       f.choice("schedule", schedule, {"rsqrt", "cosine", "constant"}, "learning-rate schedule");
//     }
//   };
//
//   ConfigReader reader(tree);
//   reader.section("train", [&](Fields& f) { train.visit(f); });
//   reader.finish();                       // unknown keys are errors with the nearest name
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lra {

struct ConfigTree {
  bool is_section = true;
  std::string value;   // of a leaf, as written
  std::string origin;  // "configs/lra/listops.yaml line 12", "--set train.steps=5"
  struct Child;
  std::vector<Child> children;

  const ConfigTree* find(std::string_view key) const;
  ConfigTree& child(std::string_view key);  // made if missing
};
struct ConfigTree::Child {
  std::string key;
  ConfigTree tree;
};

ConfigTree parse_yaml(std::string_view text, const std::string& where);
ConfigTree parse_assignment(std::string_view assignment);  // "a.b=c"
void overlay(ConfigTree& base, const ConfigTree& top);     // top's leaves win
std::string to_yaml(const ConfigTree& tree);

class Fields {
 public:
  virtual ~Fields() = default;
  using Choices = std::vector<std::string>;
  virtual void integer(const char* key, int64_t& value, int64_t low, int64_t high, const char* help) = 0;
  virtual void real(const char* key, double& value, double low, double high, const char* help) = 0;
  virtual void flag(const char* key, bool& value, const char* help) = 0;
  virtual void text(const char* key, std::string& value, const char* help) = 0;
  virtual void choice(const char* key, std::string& value, const Choices& choices, const char* help) = 0;
  virtual void section(const char* key, const std::function<void(Fields&)>& body, const char* help = "") = 0;
};

// Fills a struct from a tree; values it does not name keep their defaults.
class ConfigReader : public Fields {
 public:
  explicit ConfigReader(const ConfigTree& tree, std::string path = "");
  void integer(const char* key, int64_t& value, int64_t low, int64_t high, const char* help) override;
  void real(const char* key, double& value, double low, double high, const char* help) override;
  void flag(const char* key, bool& value, const char* help) override;
  void text(const char* key, std::string& value, const char* help) override;
  void choice(const char* key, std::string& value, const Choices& choices, const char* help) override;
  void section(const char* key, const std::function<void(Fields&)>& body, const char* help) override;
  void finish() const;

 private:
  const ConfigTree* leaf(const char* key);
  std::string dotted(std::string_view key) const;

  const ConfigTree& tree_;
  std::string path_;
  std::vector<std::string> known_;
};

// The inverse: a struct as a tree.
class ConfigWriter : public Fields {
 public:
  ConfigTree tree;
  void integer(const char* key, int64_t& value, int64_t low, int64_t high, const char* help) override;
  void real(const char* key, double& value, double low, double high, const char* help) override;
  void flag(const char* key, bool& value, const char* help) override;
  void text(const char* key, std::string& value, const char* help) override;
  void choice(const char* key, std::string& value, const Choices& choices, const char* help) override;
  void section(const char* key, const std::function<void(Fields&)>& body, const char* help) override;

 private:
  void put(const char* key, std::string value);
};

// The list of fields itself, for help texts and model cards.
struct FieldInfo {
  std::string key, type, value, range, help;
};
std::vector<FieldInfo> describe_fields(const std::function<void(Fields&)>& visit);

std::string shortest(double value);  // the shortest text that reads back as the same number

}  // namespace lra
