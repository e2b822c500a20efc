#include "report/report.h"

#include <set>

#include "base/embedded.h"
#include "base/error.h"
#include "base/version.h"
#include "report/format.h"
#include "report/sections.h"

namespace lra {
namespace {

constexpr size_t kNamed = 6;          // departures; the run's part of the page has them all
constexpr size_t kMostSentences = 6;  // beyond, the table is the summary

// "transformer on listops (protocol lra, seed 0): 36.85 % …", the line a reader looks for first.
Html sentence(const RunRecord& run) {
  const ResultRecord& r = *run.result;
  Html html = markup("<b>{}</b> on <b>{}</b> ({}, seed {}): ", escape(run.model), escape(run.task),
                     escape("protocol " + run.protocol), escape(run.seed));
  if (!r.best || !r.best->test_accuracy) return html + escape("no test accuracy.");
  html += markup("<b>{} %</b> of {} test examples right", escape(percent_text(*r.best->test_accuracy)),
                 escape(grouped_text(r.best->test_examples)));
  for (size_t i = 0; i < r.baselines.size(); ++i) {
    html += escape(fmt::format("{}{} {} %", i == 0 ? "; without learning: " : ", ", r.baselines[i].name,
                               percent_text(r.baselines[i].accuracy)));
  }
  if (r.published && r.departures.empty())
    html += escape(fmt::format("; published: {:.2f} % ({})", r.published->percent, r.published->source));
  html += Html{"."};
  if (!r.departures.empty()) {
    html += markup(" <span class=\"badge warn\">not comparable</span> Departs from the preset: {}.",
                   escape(departures_text(r.departures, kNamed)));
  } else if (run.protocol == "tiny") {
    html += Html{" <span class=\"badge warn\">not comparable</span>"};
  }
  return html;
}

Html summary(const RunRecords& runs) {
  Html items;
  size_t finished = 0;
  for (const RunGroup& group : comparable_runs(runs)) {
    for (const RunRecord* run : group.runs) {
      if (run->result && ++finished <= kMostSentences) items += markup("<li>{}</li>\n", sentence(*run));
    }
  }
  if (finished == 0 || finished > kMostSentences) return {};
  return markup("<ul class=\"summary\">\n{}</ul>\n", items);
}

Html header(const RunRecords& runs, const std::string& title,
            const std::vector<std::pair<std::string, Html>>& parts) {
  size_t finished = 0;
  for (const RunRecord& run : runs) finished += run.result ? 1 : 0;
  std::string what = fmt::format("{} of the Long Range Arena, ",
                                 runs.size() == 1 ? "One run" : fmt::format("{} runs", runs.size()));
  what +=
      "read from their folders: results with baselines and published numbers, learning curves, and with what "
      "each "
      "run was made.";
  if (runs.size() == 1) what.replace(what.find("their folders"), 13, "its folder");
  if (finished < runs.size())
    what +=
        fmt::format(" {} not finished.",
                    runs.size() - finished == 1 ? "One has" : fmt::format("{} have", runs.size() - finished));
  Html links;
  for (const auto& [id, html] : parts) {
    if (html.text.empty()) continue;
    const size_t open = html.text.find("<h2>") + 4, close = html.text.find("</h2>");
    links += markup("<a href=\"#{}\">{}</a>\n", escape(id), Html{html.text.substr(open, close - open)});
  }
  return markup(
      "<header>\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n{}<nav "
      "aria-label=\"Contents\">\n{}</nav>\n</header>\n",
      escape(title), escape(what), summary(runs), links);
}

}  // namespace

std::string report_html(const std::vector<RunRecord>& runs) {
  const auto style = embedded_files().find("src/report/assets/report.css");
  const std::string_view css = style == embedded_files().end() ? std::string_view() : style->second;
  const std::string title = runs.size() == 1 && !runs[0].model.empty()
                                ? fmt::format("Long Range Arena: {} on {}", runs[0].model, runs[0].task)
                                : "Long Range Arena: results";
  const std::vector<std::pair<std::string, Html>> parts = {{"results", results_section(runs)},
                                                           {"curves", curves_section(runs)},
                                                           {"groups", groups_section(runs)},
                                                           {"runs", runs_section(runs)}};
  Html body;
  for (const auto& [id, html] : parts) body += html;
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "img-src "
      "data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"lra {0}\">\n"
      "<link rel=\"icon\" "
      "href=\"data:,\">\n<title>{1}</title>\n<style>\n{2}</style>\n</head>\n<body>\n<main>\n{3}{4}"
      "</main>\n<footer><p>Written by lra {0} (commit {5}).</p></footer>\n</body>\n</html>\n",
      program_version(), escape_text(title), css, header(runs, title, parts).text, body.text,
      program_commit());
}

void write_report(const std::vector<fs::path>& runs, const fs::path& out) {
  if (runs.empty()) fail("report", "there is no run to report on. Give at least one run folder.");
  RunRecords records;
  std::set<fs::path> seen;
  for (const fs::path& folder : runs) {
    if (seen.insert(fs::absolute(folder).lexically_normal()).second) records.push_back(read_run(folder));
  }
  write_text(out, report_html(records));
}

}  // namespace lra
