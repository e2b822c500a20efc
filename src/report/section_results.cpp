#include "report/format.h"
#include "report/sections.h"

namespace lra {
namespace {

constexpr size_t kNamed = 3;  // departures in a row; the run's own part has them all

using Row = std::vector<HtmlCell>;

Html sub(const Html& small) { return markup("<span class=\"sub\">{}</span>", small); }
HtmlCell number(const Html& content) { return {content, "number"}; }
HtmlCell number(const std::string& content) { return number(escape(content)); }

std::vector<Row> header() {
  const auto tall = [](const char* text, const char* css = "") {
    return HtmlCell{escape(text), css, true, 1, 2};
  };
  const auto wide = [](const char* text, int columns) {
    return HtmlCell{escape(text), "group", true, columns, 1};
  };
  const auto low = [](const char* text) { return HtmlCell{escape(text), "number", true}; };
  return {{tall("Model"), tall("Task"), tall("Seed", "number"), tall("Parameters", "number"),
           tall("Steps", "number"), wide("Best on validation, %", 2), wide("Last, %", 2),
           tall("Test examples", "number wrap"), tall("Baselines, %"), tall("Published, %", "wrap"),
           tall("Data"), tall("Time, device")},
          {low("val"), low("test"), low("val"), low("test")}};
}

Html test_cell(const std::optional<CheckpointRecord>& c) {
  if (!c || !c->test_accuracy) return escape(kNothing);
  const Html value = markup("<strong>{}</strong>", escape(percent_text(*c->test_accuracy)));
  if (c->test_examples <= 0) return value;
  return value + sub(escape(interval_text(binomial_interval(*c->test_accuracy, c->test_examples))));
}

// What the best checkpoint has learned, judged by what needs no learning: on a plateau where its interval
// holds a baseline.
std::string plateau_text(const ResultRecord& r) {
  if (!r.best || !r.best->test_accuracy || r.best->test_examples <= 0) return "";
  const Interval interval = binomial_interval(*r.best->test_accuracy, r.best->test_examples);
  const BaselineRecord *on = nullptr, *below = nullptr, *above = nullptr;
  const auto higher = [](const BaselineRecord* known, const BaselineRecord& b) {
    return !known || b.accuracy > known->accuracy;
  };
  for (const BaselineRecord& b : r.baselines) {
    if (b.accuracy > interval.high) {
      above = &b;
    } else if (b.accuracy >= interval.low) {
      if (higher(on, b)) on = &b;
    } else if (higher(below, b)) {
      below = &b;
    }
  }
  if (on) return "on the plateau: " + on->name;
  if (!below) return "below all";
  return above ? "above " + below->name : "above all";
}

Html baselines_cell(const ResultRecord& r) {
  Html list;
  for (const BaselineRecord& b : r.baselines) {
    list += markup("<span class=\"line\">{} <span class=\"sub-inline\">{}</span></span>",
                   escape(percent_text(b.accuracy)), escape(b.name));
  }
  const std::string plateau = plateau_text(r);
  if (!plateau.empty()) list += sub(escape(plateau));
  return r.baselines.empty() ? escape(kNothing) : list;
}

// What is said below a table, each once, with its number where it belongs.
class Notes {
 public:
  Html mark(const std::string& text) {
    auto found = std::find(texts_.begin(), texts_.end(), text);
    if (found == texts_.end()) found = texts_.insert(found, text);
    return markup(" <sup title=\"{}\">{}</sup>", escape(text),
                  escape(std::to_string(found - texts_.begin() + 1)));
  }
  Html list() const {
    if (texts_.empty()) return {};
    Html items;
    for (const std::string& text : texts_) items += markup("<li>{}</li>\n", escape(text));
    return markup("<ol class=\"notes\">\n{}</ol>\n", items);
  }

 private:
  std::vector<std::string> texts_;
};

Html published_cell(const ResultRecord& r, Notes& notes) {
  if (!r.departures.empty())
    return escape(kNothing) + notes.mark("Not comparable: " + departures_text(r.departures, kNamed));
  if (!r.published) return escape(kNothing);
  return escape(fmt::format("{:.2f}", r.published->percent)) + notes.mark(r.published->source);
}

Html task_cell(const RunRecord& run) {
  Html html = escape(run.task);
  if (!run.task_version.empty()) html += sub(escape("version " + run.task_version));
  if (!run.variant.empty()) html += sub(escape(run.variant));
  return html;
}

Html data_cell(const ResultRecord& r) {
  if (r.data_sha256.empty()) return escape(kNothing);
  return markup("<code title=\"SHA-256 {}\">{}</code>", escape(r.data_sha256),
                escape(short_hash(r.data_sha256)));
}

Html steps_cell(const ResultRecord& r) {
  const Html steps = escape(r.steps ? grouped_text(*r.steps) : kNothing);
  return r.best ? steps + sub(escape("best at " + grouped_text(r.best->step))) : steps;
}
std::string val_text(const std::optional<CheckpointRecord>& c) {
  return c ? percent_text(c->val_accuracy) : kNothing;
}
std::string count_text(const std::optional<int64_t>& n) { return n ? grouped_text(*n) : kNothing; }

Row row_of(const RunRecords& runs, const RunRecord& run, Notes& notes) {
  const ResultRecord r = run.result.value_or(ResultRecord{});
  const std::string& name = run.model.empty() ? run.name : run.model;
  Html model = markup("<a href=\"#{}\">{}</a>", escape(run_anchor(runs, run)), escape(name));
  if (!run.result) model += sub(Html{"<span class=\"badge\">not finished</span>"});
  if (!r.departures.empty()) model += sub(Html{"<span class=\"badge warn\">departs from the preset</span>"});
  const int64_t examples = r.best ? r.best->test_examples : r.last ? r.last->test_examples : 0;
  const std::string device = run.env_value("device_name").empty() ? r.device : run.env_value("device_name");
  return {{model, "", true},
          {task_cell(run), "task"},
          number(run.seed),
          number(count_text(r.parameters)),
          number(steps_cell(r)),
          number(val_text(r.best)),
          number(test_cell(r.best)),
          number(val_text(r.last)),
          number(test_cell(r.last)),
          number(examples > 0 ? grouped_text(examples) : kNothing),
          {baselines_cell(r), ""},
          number(published_cell(r, notes)),
          {data_cell(r), ""},
          {escape(r.wall_seconds ? time_text(*r.wall_seconds) : kNothing) + sub(escape(device)), "device"}};
}

}  // namespace

Html results_section(const RunRecords& runs) {
  Html html{"<section id=\"results\">\n<h2>Results</h2>\n"};
  html += Html{
      "<p>Accuracy in percent, with its 95 % interval below (Wilson’s score interval for the number of test "
      "examples; "
      "it says nothing about other seeds). The test split is read for two checkpoints: the one best on "
      "validation, "
      "and the last. Baselines need no learning; below them stands which of them the best checkpoint’s test "
      "accuracy has left behind, a plateau being one within its interval. Published numbers stand with their "
      "source, but not beside a run that departs from its protocol’s preset. Numbers may be "
      "compared "
      "within one protocol only, which is why each has a table of its own.</p>\n"};
  for (const std::string& protocol : report_protocols(runs)) {
    const bool tiny = protocol == "tiny";
    html += markup("<h3>{}{}</h3>\n<p class=\"protocol\">{}</p>\n", escape(protocol_title(protocol)),
                   Html{tiny ? " <span class=\"badge warn\">not comparable</span>" : ""},
                   escape(protocol_text(protocol)));
    std::vector<Row> rows;
    Notes notes;
    for (const RunGroup& group : comparable_runs(runs)) {
      if (group.protocol != protocol) continue;
      for (const RunRecord* run : group.runs) rows.push_back(row_of(runs, *run, notes));
    }
    const std::string caption = "Test accuracy, " +
                                (protocol.empty() ? "protocol not known" : "protocol " + protocol) +
                                (tiny ? " (not comparable with published numbers)" : "");
    html += html_table(escape(caption), header(), rows, "results") + notes.list();
  }
  return html + Html{"</section>\n"};
}

}  // namespace lra
