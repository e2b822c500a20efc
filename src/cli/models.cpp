// lra models [NAME]: what is registered, as a list, as a card, or as the page docs/models.md.
#include <iostream>

#include "base/field_list.h"
#include "base/table.h"
#include "cli/verb.h"
#include "models/catalogue.h"
#include "nn/encoder_config.h"

namespace lra {
namespace {

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

// ---- docs/models.md (`make docs`) ----

std::string markdown_fields(const std::vector<FieldInfo>& fields, const std::string& section) {
  std::string out = "| key | default | range | meaning |\n|---|---|---|---|\n";
  for (const auto& f : fields) {
    out += fmt::format("| `{}.{}` | {} | {} | {} |\n", section, f.key, markdown_cell(f.value),
                       markdown_cell(f.range), markdown_cell(f.help));
  }
  return out;
}

std::string markdown_card(const ModelCard& c) {
  std::string out = fmt::format("## {}\n\n`lra train {} TASK`. {}.\n\n", c.title, c.name, c.paper);
  out += fmt::format("* Formula: {}\n* Cost: {}\n* Causal form: {}\n* Differences: {}\n", c.formula, c.cost,
                     c.causal ? "yes" : "no", c.differences);
  if (!c.options.empty()) out += "\n" + markdown_fields(c.options, c.name);
  return out;
}

std::string markdown_page(const std::vector<ModelCard>& cards) {
  std::string out =
      "# Models\n\nPrinted by `lra models --markdown` from what the models say of themselves; `make docs` "
      "renews "
      "it.\n\nL is the length, P the width of a head, H·P that of queries, keys and values. How a model is "
      "added: [add-a-model.md](add-a-model.md). Sizes and published accuracies by task: "
      "[protocols.md](protocols.md).\n\n| model | cost | causal form | paper |\n|---|---|---|---|\n";
  for (const auto& c : cards) {
    out += fmt::format("| `{}` | {} | {} | {} |\n", c.name, markdown_cell(c.cost), c.causal ? "yes" : "no",
                       markdown_cell(c.paper));
  }
  EncoderConfig sizes;
  out += "\n## Sizes, shared by all\n\n" +
         markdown_fields(describe_fields([&](Fields& f) { sizes.visit(f); }), "model");
  for (const auto& c : cards) out += "\n" + markdown_card(c);
  return out;
}

class Models : public Verb {
 public:
  std::string_view name() const override { return "models"; }
  int order() const override { return 20; }
  const Shared& shared() const override { return shared_; }

  CLI::App* add(CLI::App& root) override {
    auto* app = root.add_subcommand("models", "list the models, or show one");
    auto* name = app->add_option("NAME", name_, "show this one");
    app->add_flag("--markdown", markdown_, "all of them as the page docs/models.md")->excludes(name);
    add_common_options(*app, shared_);
    return app;
  }

  int run() override {
    const auto cards = model_cards();
    if (markdown_) {
      std::cout << markdown_page(cards);
      return 0;
    }
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
    for (const auto& c : cards) rows.push_back({c.name, c.causal ? "yes" : "", c.cost, c.paper});
    std::cout << format_table({"model", "causal form", "cost", "paper"}, rows);
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
  bool markdown_ = false;
};

const Registered<Verb> models_verb(std::make_unique<Models>(), LRA_HERE);

}  // namespace
}  // namespace lra
