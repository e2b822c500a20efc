// Charts as inline SVG, made for a page: colours are the CSS variables --series-1 … --series-8 and
// currentColor, so one picture serves light, dark and print. Every series also has a marker of its own and
// its name beside its end, so that nothing depends on colour. What is not finite is left out; nothing to draw
// gives a chart that says so.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lra {

struct ChartSeries {
  std::string label;
  std::vector<std::pair<double, double>> points;  // x ascends; a y that is not finite breaks the line
};
struct ChartReference {  // a dashed horizontal line
  std::string label;
  double value = 0;
};
struct LineChart {
  std::string id;                  // unique in the page
  std::string title, description;  // for those who do not see it
  std::string x_label, y_label;
  std::vector<ChartSeries> series;
  std::vector<ChartReference> references;
};
std::string line_chart_svg(const LineChart& chart);

struct ChartBar {
  std::string label, value_text;
  double value = 0;  // 0 … full
  bool emphasis = false;
};
struct BarChart {
  std::string id, title, description;
  std::vector<ChartBar> bars;
  double full = 100;
  std::string mark_label;  // a vertical line across all bars, "" for none
  double mark = 0;
};
std::string bar_chart_svg(const BarChart& chart);

// Round numbers (1, 2 or 5 times a power of ten apart) that span low … high, about `count` of them.
std::vector<double> axis_ticks(double low, double high, int count);
std::string tick_text(double value, double step);  // "0.25", "1500", "20k"

}  // namespace lra
