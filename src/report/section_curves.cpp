#include <algorithm>
#include <cmath>

#include "report/format.h"
#include "report/sections.h"
#include "report/svg.h"

namespace lra {
namespace {

constexpr size_t kMostPoints = 300;  // more than the eye or the printer resolves

using Points = std::vector<std::pair<double, double>>;

// Means of equally many neighbours each; returns how many that is.
size_t thin(Points& points) {
  const size_t width = (points.size() + kMostPoints - 1) / kMostPoints;
  if (width <= 1) return 1;
  Points thinned;
  for (size_t start = 0; start < points.size(); start += width) {
    const size_t end = std::min(points.size(), start + width);
    double x = 0, y = 0;
    for (size_t i = start; i < end; ++i) {
      x += points[i].first;
      y += points[i].second;
    }
    const auto n = static_cast<double>(end - start);
    thinned.emplace_back(x / n, y / n);
  }
  points = std::move(thinned);
  return width;
}

// A number that was not finite is null in the file and a gap in the line.
Points curve(const RunRecord& run, const char* split, std::optional<double> MetricsRecord::*value,
             double scale) {
  Points points;
  bool any = false;
  for (const MetricsRecord& row : run.metrics) {
    if (row.split != split) continue;
    any = any || row.*value;
    points.emplace_back(static_cast<double>(row.step), row.*value ? scale * *(row.*value) : std::nan(""));
  }
  return any ? points : Points{};
}

std::vector<ChartReference> baselines_of(const RunGroup& group) {
  std::vector<ChartReference> lines;
  for (const RunRecord* run : group.runs) {
    if (!run->result) continue;
    for (const BaselineRecord& b : run->result->baselines) {
      const auto same = [&](const ChartReference& line) { return line.label == b.name; };
      if (std::none_of(lines.begin(), lines.end(), same)) lines.push_back({b.name, 100 * b.accuracy});
    }
  }
  return lines;
}

std::string described(const LineChart& chart) {
  std::string text;
  for (const ChartSeries& s : chart.series) {
    const auto finite = [](const auto& p) { return std::isfinite(p.second); };
    const auto first = std::find_if(s.points.begin(), s.points.end(), finite);
    const auto last = std::find_if(s.points.rbegin(), s.points.rend(), finite);
    if (first == s.points.end()) continue;
    text += fmt::format("{}: {:.4g} at step {:.0f}, {:.4g} at step {:.0f}. ", s.label, first->second,
                        first->first, last->second, last->first);
  }
  for (const ChartReference& r : chart.references)
    text += fmt::format("Baseline {}: {:.4g}. ", r.label, r.value);
  return text.empty() ? "No data." : text;
}

Html figure(const RunGroup& group, size_t index) {
  LineChart loss, accuracy;
  size_t width = 1;
  for (size_t i = 0; i < group.runs.size(); ++i) {
    ChartSeries train{group.labels[i], curve(*group.runs[i], "train", &MetricsRecord::loss, 1)};
    width = std::max(width, thin(train.points));
    loss.series.push_back(std::move(train));
    accuracy.series.push_back({group.labels[i], curve(*group.runs[i], "val", &MetricsRecord::accuracy, 100)});
    thin(accuracy.series.back().points);
  }
  loss.id = fmt::format("loss-{}", index);
  loss.title = "Training loss by step, " + group.title;
  loss.y_label = "Training loss";
  accuracy.id = fmt::format("accuracy-{}", index);
  accuracy.title = "Validation accuracy by step, " + group.title;
  accuracy.y_label = "Validation accuracy, %";
  accuracy.references = baselines_of(group);
  loss.x_label = accuracy.x_label = "step";
  loss.description = described(loss);
  accuracy.description = described(accuracy);
  std::string caption =
      fmt::format("{}, {}. Training loss and validation accuracy by step.", group.title,
                  group.protocol.empty() ? "protocol not known" : "protocol " + group.protocol);
  if (!accuracy.references.empty())
    caption += " Dashed: baselines without learning, measured on the test split.";
  if (width > 1)
    caption += fmt::format(" Each point of the loss is the mean of up to {} logged values.", width);
  return markup(
      "<figure>\n<div class=\"panels\">\n{}{}</div>\n<figcaption><b>Figure {}.</b> "
      "{}</figcaption>\n</figure>\n",
      Html{line_chart_svg(loss)}, Html{line_chart_svg(accuracy)}, escape(fmt::format("{}", index)),
      escape(caption));
}

}  // namespace

Html curves_section(const RunRecords& runs) {
  Html figures;
  size_t index = 0;
  for (const RunGroup& group : comparable_runs(runs)) {
    const auto has_curve = [](const RunRecord* run) { return !run->metrics.empty(); };
    if (std::any_of(group.runs.begin(), group.runs.end(), has_curve)) figures += figure(group, ++index);
  }
  if (index == 0) return {};
  return Html{"<section id=\"curves\">\n<h2>Learning curves</h2>\n"} + figures + Html{"</section>\n"};
}

}  // namespace lra
