#include "report/svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/html.h"

namespace lra {
namespace {

// The drawing's own units: at a width of 400 px the text is still 10 px high.
constexpr double kWidth = 460, kHeight = 280, kTop = 26, kBottom = 42, kLeft = 50, kLine = 14;
constexpr double kCharacter = 6.7;  // width of a letter at the size of labels, on the safe side
constexpr size_t kLongestLabel = 20, kColours = 8, kMostMarkers = 30;

size_t letters(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string shortened(const std::string& text, size_t limit) {
  if (letters(text) <= limit) return text;
  size_t at = 0;
  for (size_t seen = 0; at < text.size(); ++at) {
    if ((text[at] & 0xc0) != 0x80 && seen++ == limit - 1) break;
  }
  return text.substr(0, at) + "…";
}

std::string opening(const std::string& id, const std::string& title, const std::string& description,
                    double width, double height) {
  return fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {0:g} {1:g}\" role=\"img\" aria-labelledby=\"{2}-t {2}-d\">\n"
      "<title id=\"{2}-t\">{3}</title><desc id=\"{2}-d\">{4}</desc>\n",
      width, height, escape_text(id), escape_text(title), escape_text(description));
}

std::string text_at(double x, double y, const char* css, std::string_view text, std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\"{}>{}</text>\n", x, y, css, more,
                     escape_text(text));
}

std::string line_at(double x1, double y1, double x2, double y2, const char* css) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
                     x2, y2, css);
}

// Where data falls in the drawing.
struct Frame {
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1, right = 0;
  double x(double value) const { return kLeft + (value - x_low) / (x_high - x_low) * (right - kLeft); }
  double y(double value) const {
    return kHeight - kBottom - (value - y_low) / (y_high - y_low) * (kHeight - kBottom - kTop);
  }
};

struct Bounds {
  double low = HUGE_VAL, high = -HUGE_VAL;
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

bool drawable(const std::pair<double, double>& p) {
  return std::isfinite(p.first) && std::isfinite(p.second);
}

std::string colour(size_t index) {
  return fmt::format("style=\"--c:var(--series-{})\"", index % kColours + 1);
}

// Eight shapes around (x, y), one for each colour.
std::string marker(size_t index, double x, double y) {
  static constexpr const char* kShapes[kColours] = {"M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z",
                                                    "M-3 -3h6v6h-6z",
                                                    "M0 -4L3.8 3h-7.6z",
                                                    "M0 -4.2L4.2 0L0 4.2L-4.2 0z",
                                                    "M0 4L3.8 -3h-7.6z",
                                                    "M-1.2 -4h2.4v8h-2.4z",
                                                    "M-4 -1.2h8v2.4h-8z",
                                                    "M-4 0L3 -3.8v7.6z"};
  return fmt::format("<path class=\"marker\" d=\"{}\" transform=\"translate({:.1f} {:.1f})\"/>",
                     kShapes[index % kColours], x, y);
}

std::string series_path(const ChartSeries& series, const Frame& frame) {
  std::string path;
  bool pen_down = false;
  for (const auto& p : series.points) {
    if (!drawable(p)) {
      pen_down = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", frame.x(p.first), frame.y(p.second));
    pen_down = true;
  }
  return path;
}

struct EndLabel {
  double y = 0, anchor_x = 0, anchor_y = 0;
  size_t series = 0;
  bool reference = false;
  std::string text, full;
};

// Moves labels apart to one line height each, keeping their order and, as a whole, their place.
void spread(std::vector<EndLabel>& labels) {
  std::sort(labels.begin(), labels.end(), [](const EndLabel& a, const EndLabel& b) { return a.y < b.y; });
  for (int round = 0; round < 60; ++round) {
    bool moved = false;
    for (size_t i = 1; i < labels.size(); ++i) {
      const double missing = kLine - (labels[i].y - labels[i - 1].y);
      if (missing <= 0.01) continue;
      labels[i - 1].y -= missing / 2;
      labels[i].y += missing / 2;
      moved = true;
    }
    if (!moved) break;
  }
  if (labels.empty()) return;
  const double over = labels.back().y - (kHeight - kBottom), under = kTop - labels.front().y;
  const double shift = under > 0 ? under : over > 0 ? -std::min(over, -under) : 0;
  for (EndLabel& label : labels) label.y += shift;
}

std::vector<EndLabel> end_labels(const LineChart& chart, const Frame& frame) {
  std::vector<EndLabel> labels;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const auto& points = chart.series[i].points;
    const auto last = std::find_if(points.rbegin(), points.rend(), drawable);
    if (last == points.rend()) continue;
    const double y = frame.y(last->second);
    const std::string& label = chart.series[i].label;
    labels.push_back({y, frame.x(last->first), y, i, false, shortened(label, kLongestLabel), label});
  }
  for (const ChartReference& r : chart.references) {
    if (!std::isfinite(r.value)) continue;
    const double y = frame.y(r.value);
    labels.push_back({y, frame.right, y, 0, true, shortened(r.label, kLongestLabel), r.label});
  }
  spread(labels);
  return labels;
}

std::string draw_labels(const std::vector<EndLabel>& labels, const Frame& frame) {
  std::string svg;
  for (const EndLabel& l : labels) {
    const double x = frame.right + 14;
    svg += l.reference ? std::string("<g class=\"reference\">")
                       : fmt::format("<g class=\"series\" {}>", colour(l.series));
    svg += fmt::format("<path class=\"leader\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>",
                       l.anchor_x + (l.reference ? 0 : 5), l.anchor_y, x - 3, l.y);
    if (!l.reference) svg += marker(l.series, l.anchor_x, l.anchor_y);
    const std::string tip = l.text == l.full ? "" : fmt::format("<title>{}</title>", escape_text(l.full));
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"label\">{}{}</text></g>\n", x, l.y + 4, tip,
                       escape_text(l.text));
  }
  return svg;
}

std::string draw_axes(const LineChart& chart, const Frame& frame, const std::vector<double>& xs,
                      const std::vector<double>& ys) {
  std::string svg = text_at(kLeft, 12, "axis-label", chart.y_label);
  const double floor = kHeight - kBottom;
  for (const double y : ys) {
    svg += line_at(kLeft, frame.y(y), frame.right, frame.y(y), "grid");
    svg += text_at(kLeft - 7, frame.y(y) + 4, "tick", tick_text(y, ys[1] - ys[0]), " text-anchor=\"end\"");
  }
  for (const double x : xs) {
    svg += line_at(frame.x(x), floor, frame.x(x), floor + 4, "axis");
    svg += text_at(frame.x(x), floor + 17, "tick", tick_text(x, xs[1] - xs[0]), " text-anchor=\"middle\"");
  }
  svg += line_at(kLeft, floor, frame.right, floor, "axis");
  svg +=
      text_at((kLeft + frame.right) / 2, kHeight - 6, "axis-label", chart.x_label, " text-anchor=\"middle\"");
  return svg;
}

std::string draw_series(const LineChart& chart, const Frame& frame) {
  std::string svg;
  for (const ChartReference& r : chart.references) {
    if (!std::isfinite(r.value)) continue;
    svg += line_at(kLeft, frame.y(r.value), frame.right, frame.y(r.value), "reference-line");
  }
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const std::string path = series_path(chart.series[i], frame);
    if (path.empty()) continue;
    svg += fmt::format("<g class=\"series\" {}><path class=\"line\" d=\"{}\"/>", colour(i), path);
    const auto& points = chart.series[i].points;
    for (const auto& p : points) {
      if (points.size() <= kMostMarkers && drawable(p)) svg += marker(i, frame.x(p.first), frame.y(p.second));
    }
    svg += "</g>\n";
  }
  return svg;
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int count) {
  if (!std::isfinite(low) || !std::isfinite(high)) return {0, 1};
  if (low > high) std::swap(low, high);
  low = std::clamp(low, -1e300, 1e300);  // their difference stays finite
  high = std::clamp(high, -1e300, 1e300);
  // A single value gets an axis around it, far enough from it that its ticks are different numbers.
  const double least = std::max(1e-9, std::max(std::abs(low), std::abs(high)) * 1e-9);
  if (high - low < least) {
    const double around = std::max(std::abs(low) * 0.1, 1e-3);
    low -= around;
    high += around;
  }
  const double rough = (high - low) / std::max(1, count);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough / power <= 1 ? 1 : rough / power <= 2 ? 2 : rough / power <= 5 ? 5 : 10);
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string tick_text(double value, double step) {
  if (std::abs(value) < std::abs(step) * 1e-6) return "0";
  const double size = std::abs(value);
  const auto whole_thousands = [&](double unit) { return std::fmod(std::abs(step) * 2, unit) < unit * 1e-6; };
  if (size >= 1e15 || step < 1e-6) return fmt::format("{:.3g}", value);
  if (size >= 1e6 && step >= 5e4) return fmt::format("{:.4g}M", value / 1e6);
  if (step >= 500 && whole_thousands(1e3)) return fmt::format("{:.5g}k", value / 1e3);
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6);
  return fmt::format("{:.{}f}", value, digits);
}

std::string line_chart_svg(const LineChart& chart) {
  std::string svg = opening(chart.id, chart.title, chart.description, kWidth, kHeight);
  Bounds x, y;
  size_t longest = 0;
  for (const ChartSeries& series : chart.series) {
    for (const auto& p : series.points) {
      if (!drawable(p)) continue;
      x.add(p.first);
      y.add(p.second);
    }
    longest = std::max(longest, std::min(kLongestLabel, letters(series.label)));
  }
  if (x.empty())
    return svg + text_at(kWidth / 2, kHeight / 2, "tick", "no data", " text-anchor=\"middle\"") + "</svg>\n";
  for (const ChartReference& r : chart.references) {
    y.add(r.value);
    longest = std::max(longest, std::min(kLongestLabel, letters(r.label)));
  }
  const std::vector<double> ys = axis_ticks(y.low, y.high, 5);
  std::vector<double> xs = axis_ticks(std::min(0.0, x.low), x.high, 5);
  const Frame frame{xs.front(), std::max(x.high, xs[1]), ys.front(), ys.back(),
                    kWidth - 18 - kCharacter * static_cast<double>(longest)};
  // Unlike the height, the length of the axis is the data's own: a run ends where it ended.
  while (xs.size() > 2 && xs.back() > frame.x_high * (1 + 1e-9)) xs.pop_back();
  svg += draw_axes(chart, frame, xs, ys);
  svg += draw_series(chart, frame);
  svg += draw_labels(end_labels(chart, frame), frame);
  return svg + "</svg>\n";
}

std::string bar_chart_svg(const BarChart& chart) {
  constexpr double kBarWidth = 300, kRow = 22, kThick = 13;
  size_t longest = 3;
  for (const ChartBar& bar : chart.bars)
    longest = std::max(longest, std::min(kLongestLabel, letters(bar.label)));
  const double left = kCharacter * static_cast<double>(longest) + 14, right = kBarWidth - 48;
  const double height = kRow * static_cast<double>(chart.bars.size()) + (chart.mark_label.empty() ? 6 : 20);
  const auto x = [&](double value) {
    const double share =
        std::isfinite(value) && chart.full > 0 ? std::clamp(value / chart.full, 0.0, 1.0) : 0;
    return left + share * (right - left);
  };
  std::string svg = opening(chart.id, chart.title, chart.description, kBarWidth, height);
  double y = 4;
  for (const ChartBar& bar : chart.bars) {
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:g}\" class=\"{}\"/>\n",
                       left, y, std::max(0.5, x(bar.value) - left), kThick, bar.emphasis ? "bar all" : "bar");
    svg += text_at(left - 7, y + 11, "label", shortened(bar.label, kLongestLabel), " text-anchor=\"end\"");
    svg += text_at(x(bar.value) + 6, y + 11, "value", bar.value_text);
    y += kRow;
  }
  svg += line_at(left, 0, left, y, "axis");
  if (!chart.mark_label.empty()) {
    svg += line_at(x(chart.mark), 0, x(chart.mark), y, "reference-line");
    svg += text_at(x(chart.mark), y + 11, "tick", chart.mark_label, " text-anchor=\"middle\"");
  }
  return svg + "</svg>\n";
}

}  // namespace lra
