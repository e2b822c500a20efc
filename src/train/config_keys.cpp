#include "train/config_keys.h"

#include "base/field_list.h"
#include "models/model.h"
#include "train/run_config.h"

namespace lra {
namespace {

std::string section_of(const FieldInfo& field) {
  const size_t dot = field.key.find('.');
  return dot == field.key.npos ? "" : field.key.substr(0, dot);
}

// What all models have in common.
std::vector<FieldInfo> common_fields() {
  const std::string any = Registry<Model>::instance().names().front();
  std::vector<FieldInfo> fields = config_fields(any);
  std::erase_if(fields, [&](const FieldInfo& field) { return section_of(field) == any; });
  return fields;
}

std::vector<FieldInfo> fields_for(const std::string& model) {
  std::vector<FieldInfo> fields = common_fields();
  const auto names = model.empty() ? Registry<Model>::instance().names() : std::vector{model};
  for (const std::string& name : names) {
    for (FieldInfo& field : config_fields(name)) {
      if (section_of(field) == name) fields.push_back(std::move(field));
    }
  }
  return fields;
}

// No limit that anybody meets is left unsaid, none that nobody meets is said.
std::string range_text(const FieldInfo& field) {
  for (const char* most : {" to 9223372036854775807", " to 1000000000"}) {
    if (field.range.ends_with(most))
      return "from " + field.range.substr(0, field.range.size() - std::string_view(most).size());
  }
  return field.range;
}

constexpr const char* kPage = R"(# Configuration

Printed by `lra train --keys --markdown` from the list that reads `config.yaml`; `make docs` renews it. On the terminal:
`lra train --keys`, or `lra train MODEL --keys` with the model's own section; `--json`.

A run's configuration comes in layers, each over the one before: the defaults below, the preset of protocol, task and
model ([protocols.md](protocols.md)), `--config FILE`, `--set KEY=VALUE`, and options of their own (`--seed`, `--steps`,
`--device`, `--dtype`, `--deterministic`). What comes out is `config.yaml` in the run's folder, in full: `lra train
--config` on it repeats the run. `lra train MODEL TASK --dry-run` prints it beforehand. An unknown key, a value of the
wrong type or out of its range is an error.
)";

// Those of train/schedule.h and kernels/adamw.
constexpr const char* kFormulas =
    R"(rate at update s, counted from 0, with c = train.learning_rate, w = train.warmup, T = train.steps
  rsqrt      c · min(1, s/w) / √max(s, w, 1)
  cosine     c · min(1, s/w) · ½(1 + cos(π · frac(max(0, s − w)/T)))
  constant   c · min(1, s/w)

update of the parameters p by their gradient g; n is the norm of all gradients together, t = s + 1
  g ← g · min(1, clip / (n + 1e-6))                      where train.clip is not 0
  m ← β1·m + (1 − β1)·g,    v ← β2·v + (1 − β2)·g²
  p ← p − rate·weight_decay·p − rate·m̂ / (√v̂ + ε),      m̂ = m/(1 − β1^t),  v̂ = v/(1 − β2^t)
)";

constexpr const char* kRemarks = R"(
Without a warm-up (w = 0) the factor min(1, s/w) is 1; with one the rate is 0 at the first update, as in the arena's
code. In `rsqrt` c is not itself a rate: the highest, at s = w, is c/√w. `train.stop_after` (`--steps`) cuts a run short
and leaves T, and so every rate, as it is; `train.steps` changes T.
)";

constexpr const char* kModels = R"(
## A section named after the model

Every model's own keys: `lra models NAME`, or [models.md](models.md).
)";

std::string markdown_table(const std::vector<FieldInfo>& fields, const std::string& section) {
  std::string out = "\n| key | type | default | range | meaning |\n|---|---|---|---|---|\n";
  for (const FieldInfo& f : fields) {
    if (section_of(f) != section) continue;
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", f.key, f.type, markdown_cell(f.value),
                       markdown_cell(range_text(f)), markdown_cell(f.help));
  }
  return out;
}

}  // namespace

std::string config_keys_text(const std::string& model) {
  std::string out;
  for (const FieldInfo& f : fields_for(model)) {
    const std::string range = range_text(f);
    out += fmt::format("{}{}\n    {} [{}{}{}]\n", f.key, f.value.empty() ? "" : " = " + f.value, f.help,
                       f.type, range.empty() ? "" : ": ", range);
  }
  return out + "\n" + kFormulas;
}

Json config_keys_json(const std::string& model) { return fields_json(fields_for(model)); }

std::string config_page() {
  const std::vector<FieldInfo> fields = common_fields();
  std::string out = kPage;
  out += "\n## Of the run\n" + markdown_table(fields, "");
  for (const char* section : {"task", "model", "train"}) {
    out += fmt::format("\n## `{}`\n", section) + markdown_table(fields, section);
    if (section == std::string_view("model")) out += kModels;
  }
  out += fmt::format("\n### Formulas\n\n```\n{}```\n{}", kFormulas, kRemarks);
  return out + "\n## `published`\n" + markdown_table(fields, "published");
}

}  // namespace lra
