// A comparison as a person reads it and as a script does.
#include <charconv>

#include <fmt/format.h>

#include "base/table.h"
#include "report/compare.h"
#include "report/format.h"

namespace lra {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string test_text(const std::optional<CheckpointRecord>& c) {
  if (!c || !c->test_accuracy) return kNothing;
  if (c->test_examples <= 0) return percent_text(*c->test_accuracy);
  return fmt::format("{} ({})", percent_text(*c->test_accuracy),
                     interval_text(binomial_interval(*c->test_accuracy, c->test_examples)));
}

std::string published_text(const ResultRecord& r) {
  if (!r.published) return kNothing;
  if (!r.departures.empty()) return "not comparable";
  return fmt::format("{:.2f}, {}", r.published->percent, r.published->source);
}

std::vector<std::string> result_column(const RunRecord& run) {
  const ResultRecord r = run.result.value_or(ResultRecord{});
  const auto or_nothing = [](const std::string& text) { return text.empty() ? std::string(kNothing) : text; };
  const auto count = [](const std::optional<int64_t>& n) { return n ? fmt::format("{}", *n) : kNothing; };
  return {or_nothing(run.model),
          or_nothing(run.task),
          or_nothing(run.task_version),
          or_nothing(run.variant),
          or_nothing(run.protocol),
          or_nothing(run.seed),
          or_nothing(short_hash(r.data_sha256)),
          count(r.parameters),
          count(r.steps),
          r.best ? percent_text(r.best->val_accuracy) : kNothing,
          test_text(r.best),
          r.last ? percent_text(r.last->val_accuracy) : kNothing,
          test_text(r.last),
          r.best ? fmt::format("{}", r.best->test_examples) : kNothing,
          published_text(r),
          r.departures.empty() ? kNothing : fmt::format("in {} of its keys", r.departures.size()),
          r.wall_seconds ? time_text(*r.wall_seconds) : kNothing,
          or_nothing(r.device)};
}

Rows result_rows(const Comparison& c) {
  const std::vector<std::string> names = {"model",
                                          "task",
                                          "task version",
                                          "variant",
                                          "protocol",
                                          "seed",
                                          "data",
                                          "parameters",
                                          "steps",
                                          "best: val accuracy, %",
                                          "best: test accuracy, %",
                                          "last: val accuracy, %",
                                          "last: test accuracy, %",
                                          "test examples",
                                          "published, %",
                                          "departs from the preset",
                                          "wall time",
                                          "device"};
  const std::vector<std::string> a = result_column(c.a), b = result_column(c.b);
  Rows rows;
  for (size_t i = 0; i < names.size(); ++i) rows.push_back({names[i], a[i], b[i]});
  return rows;
}

std::string paired_text(const Comparison& c) {
  const PairedTest& t = *c.paired;
  std::string text = fmt::format("Paired test on {} test examples\n\n", t.counts.total());
  text +=
      format_table({"", "B right", "B wrong"},
                   {{"A right", fmt::format("{}", t.counts.both), fmt::format("{}", t.counts.only_a)},
                    {"A wrong", fmt::format("{}", t.counts.only_b), fmt::format("{}", t.counts.neither)}});
  text += fmt::format(
      "\naccuracy A {} %, B {} %; A - B = {:+.2f} points, 95 % interval {:+.2f} to {:+.2f}\n"
      "exact McNemar test: p = {} ({})\n",
      percent_text(t.accuracy_a), percent_text(t.accuracy_b), 100 * t.difference, 100 * t.interval.low,
      100 * t.interval.high, p_text(t.log_p),
      t.p < 0.05 ? "the difference is more than chance at the 5 % level"
                 : "the difference may well be chance");
  return text;
}

Json checkpoint_json(const std::optional<CheckpointRecord>& c) {
  if (!c) return nullptr;
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"step", c->step},
          {"val_accuracy", number(c->val_accuracy)},
          {"test_accuracy", number(c->test_accuracy)},
          {"test_loss", number(c->test_loss)},
          {"test_examples", c->test_examples}};
}

// A number; null where an unfinished run's configuration has none.
Json seed_json(const RunRecord& run) {
  if (run.result) return run.result->seed;
  uint64_t seed = 0;
  const char* end = run.seed.data() + run.seed.size();
  const auto [at, code] = std::from_chars(run.seed.data(), end, seed);
  return code == std::errc() && at == end ? Json(seed) : Json();
}

Json run_json(const RunRecord& run) {
  Json json = {{"run", run.folder.string()},
               {"finished", run.result.has_value()},
               {"model", run.model},
               {"task", run.task},
               {"task_version", run.task_version},
               {"variant", run.variant},
               {"protocol", run.protocol},
               {"seed", seed_json(run)}};
  if (!run.result) return json;
  json["data_sha256"] = run.result->data_sha256;
  json["best"] = checkpoint_json(run.result->best);
  json["last"] = checkpoint_json(run.result->last);
  if (!run.result->departures.empty()) json["departures"] = departures_json(run.result->departures);
  return json;
}

}  // namespace

std::string comparison_text(const Comparison& c) {
  std::string text =
      fmt::format("A  {}\nB  {}\n\nConfiguration\n\n", c.a.folder.string(), c.b.folder.string());
  Rows rows;
  for (const ConfigDifference& d : c.differences) {
    rows.push_back({d.key, d.a.value_or("(not set)"), d.b.value_or("(not set)")});
  }
  text += rows.empty() ? "the same in every key\n" : format_table({"key", "A", "B"}, rows);
  text += "\nResults\n\n" + format_table({"", "A", "B"}, result_rows(c)) + "\n";
  text += c.paired ? paired_text(c) : fmt::format("No paired test: {}\n", c.unpaired_because);
  std::vector<std::string> notes = c.notes;
  for (const RunRecord* run : {&c.a, &c.b}) {
    for (const std::string& note : run->notes) notes.push_back(fmt::format("{}: {}", run->name, note));
  }
  if (!notes.empty()) text += "\n";
  for (const std::string& note : notes) text += fmt::format("note: {}\n", note);
  return text;
}

Json comparison_json(const Comparison& c) {
  Json differences = Json::array();
  for (const ConfigDifference& d : c.differences) {
    const auto value = [](const std::optional<std::string>& v) { return v ? Json(*v) : Json(nullptr); };
    differences.push_back({{"key", d.key}, {"a", value(d.a)}, {"b", value(d.b)}});
  }
  Json json = {{"a", run_json(c.a)}, {"b", run_json(c.b)}, {"differences", differences}, {"paired", nullptr}};
  if (c.paired) {
    const PairedTest& t = *c.paired;
    json["paired"] = {{"examples", t.counts.total()},
                      {"both_right", t.counts.both},
                      {"only_a", t.counts.only_a},
                      {"only_b", t.counts.only_b},
                      {"both_wrong", t.counts.neither},
                      {"accuracy_a", t.accuracy_a},
                      {"accuracy_b", t.accuracy_b},
                      {"difference", t.difference},
                      {"difference_low", t.interval.low},
                      {"difference_high", t.interval.high},
                      {"mcnemar_p", t.p},
                      {"mcnemar_log_p", t.log_p}};
  } else {
    json["unpaired_because"] = c.unpaired_because;
  }
  json["notes"] = c.notes;
  return json;
}

}  // namespace lra
