// lra models [NAME]: what is registered, as a list or as a card.
#include <iostream>

#include "base/table.h"
#include "cli/verb.h"
#include "models/catalogue.h"
#include "nn/encoder_config.h"

namespace lra {
namespace {

Json fields_json(const std::vector<FieldInfo>& fields) {
  Json list = Json::array();
  for (const auto& f : fields) {
    list.push_back(
        {{"key", f.key}, {"type", f.type}, {"default", f.value}, {"range", f.range}, {"help", f.help}});
  }
  return list;
}

Json card_json(const ModelCard& c) {
  return {{"name", c.name},
          {"title", c.title},
          {"paper", c.paper},
          {"formula", c.formula},
          {"cost", c.cost},
          {"causal", c.causal},
          {"differences", c.differences},
          {"options", fields_json(c.options)}};
}

std::string field_table(const std::vector<FieldInfo>& fields, const std::string& section) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& f : fields) rows.push_back({section + "." + f.key, f.value, f.range, f.help});
  return format_table({"key", "default", "range", "meaning"}, rows);
}

class Models : public Verb {
 public:
  std::string_view name() const override { return "models"; }
  int order() const override { return 20; }
  const Shared& shared() const override { return shared_; }

  CLI::App* add(CLI::App& root) override {
    auto* app = root.add_subcommand("models", "list the models, or show one");
    app->add_option("NAME", name_, "show this one");
    add_common_options(*app, shared_);
    return app;
  }

  int run() override {
    const auto cards = model_cards();
    if (name_.empty()) {
      list(cards);
      return 0;
    }
    std::vector<std::string> names;
    for (const auto& card : cards) {
      if (card.name == name_) {
        show(card);
        return 0;
      }
      names.push_back(card.name);
    }
    fail("models", "there is no model '{}'. {}", name_, suggestion(name_, names));
  }

 private:
  void list(const std::vector<ModelCard>& cards) const {
    if (shared_.json) {
      Json all = Json::array();
      for (const auto& card : cards) all.push_back(card_json(card));
      print_json(all);
      return;
    }
    std::vector<std::vector<std::string>> rows;
    for (const auto& c : cards) rows.push_back({c.name, c.cost, c.paper});
    std::cout << format_table({"model", "cost", "paper"}, rows);
  }

  void show(const ModelCard& c) const {
    if (shared_.json) {
      print_json(card_json(c));
      return;
    }
    std::cout << c.title << "\n\n  paper        " << c.paper << "\n  formula      " << c.formula
              << "\n  cost         " << c.cost << "\n  causal form  " << (c.causal ? "yes" : "no")
              << "\n  differences  " << c.differences << "\n\nSizes (shared by all models):\n";
    EncoderConfig sizes;
    std::cout << field_table(describe_fields([&](Fields& f) { sizes.visit(f); }), "model");
    if (!c.options.empty()) std::cout << "\nOptions of its own:\n" << field_table(c.options, c.name);
  }

  Shared shared_;
  std::string name_;
};

const Registered<Verb> models_verb(std::make_unique<Models>(), LRA_HERE);

}  // namespace
}  // namespace lra
