#include <algorithm>
#include <cmath>

#include "report/format.h"
#include "report/sections.h"

namespace lra {
namespace {

Html term(const char* name, const Html& value) {
  return value.text.empty() ? Html{} : markup("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), value);
}
Html wide_term(const char* name, const std::string& text) {
  if (text.empty()) return {};
  return markup("<div class=\"wide\"><dt>{}</dt><dd><code>{}</code></dd></div>\n", escape(name),
                escape(text));
}

// env.json's keys with the words for them; keys that are not here are shown under their own names.
constexpr std::pair<const char*, const char*> kEnvironment[] = {
    {"program", "Program"},   {"commit", "Commit"},       {"torch", "LibTorch"},
    {"compiler", "Compiler"}, {"device", "Device"},       {"device_name", "Device name"},
    {"host", "Host"},         {"threads", "CPU threads"}, {"started", "Started"},
    {"build", "Build"},       {"system", "System"}};

Html environment(const RunRecord& run) {
  Html html;
  for (const auto& [key, title] : kEnvironment) html += term(title, escape(run.env_value(key)));
  for (const auto& [key, value] : run.env) {
    const auto same = [&name = key](const auto& known) { return name == known.first; };
    const bool known = std::any_of(std::begin(kEnvironment), std::end(kEnvironment), same);
    if (!known && key != "command") html += term(key.c_str(), escape(value));
  }
  return html;
}

std::string speed_text(double examples_per_s) {
  const bool whole = examples_per_s >= 100;
  return (whole ? grouped_text(std::llround(examples_per_s)) : fmt::format("{:.3g}", examples_per_s)) +
         " examples/s";
}

Html outcome(const RunRecord& run) {
  if (!run.result) return {};
  const ResultRecord& r = *run.result;
  // "steps" in the file; what else is said there is a sentence.
  Html html =
      term("Stopped because", escape(r.stop_reason == "steps" ? "its last step was reached" : r.stop_reason));
  if (r.wall_seconds) html += term("Wall time", escape(time_text(*r.wall_seconds)));
  if (r.train_examples_per_s) {
    html += term("Training speed", escape(speed_text(*r.train_examples_per_s)));
  }
  if (r.peak_memory_bytes) html += term("Peak memory", escape(bytes_text(*r.peak_memory_bytes)));
  if (r.best && r.best->test_loss)
    html += term("Test loss, best", escape(fmt::format("{:.4f}", *r.best->test_loss)));
  if (r.last && r.last->test_loss)
    html += term("Test loss, last", escape(fmt::format("{:.4f}", *r.last->test_loss)));
  return html + wide_term("Data SHA-256", r.data_sha256);
}

Html part(const RunRecords& runs, const RunRecord& run) {
  Html html = markup("<article id=\"{}\">\n<h3>{}</h3>\n", escape(run_anchor(runs, run)), escape(run.name));
  if (run.result && !run.result->departures.empty()) {
    html += markup(
        "<p class=\"note\">Departs from the preset of protocol {}: {}. Its numbers are not "
        "comparable with that protocol’s.</p>\n",
        escape(run.protocol), escape(departures_text(run.result->departures)));
  }
  for (const std::string& note : run.notes) html += markup("<p class=\"note\">{}</p>\n", escape(note));
  html += markup("<dl>\n{}{}</dl>\n", environment(run), outcome(run));
  const std::string command = run.env_value("command");
  if (!command.empty()) html += markup("<p class=\"what\">Command</p>\n<pre>{}</pre>\n", escape(command));
  html += markup("<details>\n<summary>Configuration</summary>\n<pre>{}</pre>\n</details>\n</article>\n",
                 escape(run.config_text));
  return html;
}

}  // namespace

Html runs_section(const RunRecords& runs) {
  Html html{
      "<section id=\"runs\">\n<h2>Runs</h2>\n"
      "<p>With what each run was made. Its configuration is complete: <code>lra train --config</code> on it "
      "repeats the run.</p>\n"};
  for (const RunRecord& run : runs) html += part(runs, run);
  return html + Html{"</section>\n"};
}

}  // namespace lra
