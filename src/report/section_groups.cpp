#include <algorithm>

#include "report/format.h"
#include "report/sections.h"
#include "report/svg.h"

namespace lra {
namespace {

double share(const GroupRecord& g) {
  return g.examples > 0 ? static_cast<double>(g.correct) / static_cast<double>(g.examples) : 0;
}

Html count_cell(double accuracy, int64_t examples) {
  return markup("{}<span class=\"sub\">{}</span>", escape(percent_text(accuracy)),
                escape(fmt::format("n = {}", grouped_text(examples))));
}

std::optional<double> overall(const ResultRecord& r) {
  return r.best ? r.best->test_accuracy : std::optional<double>();
}

// The groups of all runs, in the order in which they first appear.
std::vector<std::string> names_of(const RunGroup& group) {
  std::vector<std::string> names;
  for (const RunRecord* run : group.runs) {
    if (!run->result) continue;
    for (const GroupRecord& g : run->result->groups) {
      if (std::find(names.begin(), names.end(), g.name) == names.end()) names.push_back(g.name);
    }
  }
  return names;
}

Html table(const RunGroup& group, const std::vector<std::string>& names) {
  std::vector<HtmlCell> header = {{escape("Run"), "", true}};
  for (const std::string& name : names) header.push_back({escape(name), "number", true});
  header.push_back({escape("All"), "number", true});
  std::vector<std::vector<HtmlCell>> rows;
  for (size_t i = 0; i < group.runs.size(); ++i) {
    if (!group.runs[i]->result || group.runs[i]->result->groups.empty()) continue;
    const ResultRecord& r = *group.runs[i]->result;
    std::vector<HtmlCell> row = {{escape(group.labels[i]), "", true}};
    for (const std::string& name : names) {
      const auto same = [&](const GroupRecord& g) { return g.name == name; };
      const auto found = std::find_if(r.groups.begin(), r.groups.end(), same);
      row.push_back({found == r.groups.end() ? escape(kNothing) : count_cell(share(*found), found->examples),
                     "number"});
    }
    row.push_back(
        {overall(r) ? count_cell(*overall(r), r.best->test_examples) : escape(kNothing), "number all"});
    rows.push_back(std::move(row));
  }
  const std::string caption =
      fmt::format("Test accuracy in percent by group, best checkpoint: {}, {}", group.title,
                  group.protocol.empty() ? "protocol not known" : "protocol " + group.protocol);
  return html_table(escape(caption), {header}, rows, "groups");
}

Html chart(const ResultRecord& r, const std::string& label, const std::string& id) {
  BarChart bars;
  bars.id = id;
  bars.title = "Test accuracy by group, " + label;
  for (const GroupRecord& g : r.groups) {
    bars.bars.push_back({g.name, percent_text(share(g)), 100 * share(g), false});
    bars.description += fmt::format("{}: {} %. ", g.name, percent_text(share(g)));
  }
  if (const auto all = overall(r)) {
    bars.bars.push_back({"All", percent_text(*all), 100 * *all, true});
    bars.description += fmt::format("All: {} %.", percent_text(*all));
  }
  return markup("<figure class=\"small\">\n<figcaption>{}</figcaption>\n{}</figure>\n", escape(label),
                Html{bar_chart_svg(bars)});
}

}  // namespace

Html groups_section(const RunRecords& runs) {
  Html html;
  int charts = 0;
  for (const RunGroup& group : comparable_runs(runs)) {
    const std::vector<std::string> names = names_of(group);
    if (names.empty()) continue;
    html += Html{"<div class=\"by-group\">\n"} + table(group, names) + Html{"<div class=\"multiples\">\n"};
    for (size_t i = 0; i < group.runs.size(); ++i) {
      const auto& result = group.runs[i]->result;
      if (!result || result->groups.empty()) continue;
      html += chart(*result, group.labels[i], fmt::format("groups-{}", ++charts));
    }
    html += Html{"</div>\n</div>\n"};
  }
  if (charts == 0) return {};
  return Html{
             "<section id=\"groups\">\n<h2>Accuracy by group</h2>\n"
             "<p>The test examples by what a model has to do for them (ListOps: the operator at the root), "
             "for the "
             "checkpoint best on validation.</p>\n"} +
         html + Html{"</section>\n"};
}

}  // namespace lra
