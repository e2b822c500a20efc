#include "report/svg.h"

#include <cmath>

#include <gtest/gtest.h>

#include "report/html.h"

namespace lra {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// No coordinate of a drawing is anything but a number.
void expect_clean(const std::string& svg) {
  EXPECT_FALSE(contains(svg, "nan")) << svg;
  EXPECT_FALSE(contains(svg, "inf\"") || contains(svg, "inf ") || contains(svg, "-inf")) << svg;
  EXPECT_TRUE(contains(svg, "role=\"img\"") && contains(svg, "<title id=") && contains(svg, "<desc id="));
  EXPECT_EQ(count(svg, "<g "), count(svg, "</g>"));
  EXPECT_EQ(count(svg, "<text "), count(svg, "</text>"));
}

LineChart chart_of(std::vector<ChartSeries> series) {
  LineChart chart;
  chart.id = "c";
  chart.title = "Loss";
  chart.series = std::move(series);
  return chart;
}

TEST(SvgTest, ALineGoesThroughItsPointsFromLeftToRight) {
  const std::string svg = line_chart_svg(chart_of({{"a", {{0, 1}, {10, 2}, {20, 3}}}}));
  expect_clean(svg);
  EXPECT_EQ(count(svg, "class=\"line\""), 1u);
  EXPECT_TRUE(contains(svg, "M50.0 ")) << svg;  // the first point lies on the axis
}

TEST(SvgTest, EmptyAndHostileSeriesGiveADrawingWithoutNonsense) {
  const double nan = std::nan(""), inf = HUGE_VAL;
  const std::vector<ChartSeries> cases[] = {
      {},
      {{"empty", {}}},
      {{"one point", {{5, 0.5}}}},
      {{"one at zero", {{0, 0}}}},
      {{"constant", {{0, 2}, {1, 2}, {2, 2}}}},
      {{"not finite", {{0, nan}, {1, inf}, {nan, 1}}}},
      {{"huge", {{0, -1e308}, {1, 1e308}}}},
      {{"tiny", {{0, 1e-300}, {1, 2e-300}}}},
      {{"close", {{0, 1e12}, {1, 1e12 + 1e-4}}}},
      {{"gap", {{0, 1}, {1, nan}, {2, 3}}}, {"", {}}},
  };
  for (const auto& series : cases) expect_clean(line_chart_svg(chart_of(series)));
  EXPECT_TRUE(contains(line_chart_svg(chart_of({})), "no data"));
}

TEST(SvgTest, AGapBreaksTheLine) {
  const std::string svg =
      line_chart_svg(chart_of({{"a", {{0, 1}, {1, 2}, {2, std::nan("")}, {3, 1}, {4, 2}}}}));
  const size_t at = svg.find("class=\"line\"");
  const std::string path = svg.substr(at, svg.find("/>", at) - at);
  EXPECT_EQ(count(path, "M"), 2u);
  EXPECT_EQ(count(path, "L"), 2u);
}

TEST(SvgTest, LabelsOfLinesThatEndTogetherDoNotOverlap) {
  std::vector<ChartSeries> series;
  for (int i = 0; i < 10; ++i) series.push_back({"model" + std::to_string(i), {{0, 1}, {1, 2 + 0.001 * i}}});
  const std::string svg = line_chart_svg(chart_of(series));
  std::vector<double> heights;
  for (size_t at = svg.find("class=\"label\""); at != svg.npos; at = svg.find("class=\"label\"", at + 1)) {
    heights.push_back(std::stod(svg.substr(svg.rfind("y=\"", at) + 3)));
  }
  ASSERT_EQ(heights.size(), 10u);
  for (size_t i = 1; i < heights.size(); ++i) EXPECT_GT(heights[i] - heights[i - 1], 12);
  EXPECT_GT(heights.front(), 10);
  EXPECT_LT(heights.back(), 280);
}

TEST(SvgTest, TextFromOutsideIsEscaped) {
  LineChart chart = chart_of({{"<script>alert(1)</script>", {{0, 1}, {1, 2}}}});
  chart.title = "a & b";
  chart.references = {{"\"<b>\"", 1.5}};
  const std::string svg = line_chart_svg(chart);
  EXPECT_FALSE(contains(svg, "<script") || contains(svg, "<b>"));
  EXPECT_TRUE(contains(svg, "a &amp; b"));
  expect_clean(svg);
}

TEST(SvgTest, TicksAreRoundAndSpanTheData) {
  EXPECT_EQ(axis_ticks(0, 5000, 5), (std::vector<double>{0, 1000, 2000, 3000, 4000, 5000}));
  const std::vector<double> ticks = axis_ticks(17.2, 36.9, 5);
  EXPECT_LE(ticks.front(), 17.2);
  EXPECT_GE(ticks.back(), 36.9);
  EXPECT_DOUBLE_EQ(ticks[1] - ticks[0], 5);
  EXPECT_GE(axis_ticks(3, 3, 5).size(), 2u);
  EXPECT_GE(axis_ticks(-1e308, 1e308, 5).size(), 2u);
  EXPECT_EQ(axis_ticks(std::nan(""), 1, 5).size(), 2u);
}

TEST(SvgTest, TickTextsAreShortAndDifferent) {
  EXPECT_EQ(tick_text(0, 1000), "0");
  EXPECT_EQ(tick_text(2000, 1000), "2k");
  EXPECT_EQ(tick_text(2500, 500), "2.5k");
  EXPECT_EQ(tick_text(0.25, 0.05), "0.25");
  EXPECT_EQ(tick_text(35, 5), "35");
  EXPECT_EQ(tick_text(2e6, 5e5), "2M");
}

TEST(SvgTest, ABarIsAsLongAsItsValueAndNeverLeavesTheChart) {
  BarChart chart;
  chart.id = "b";
  chart.bars = {{"half", "50.0", 50, false},
                {"full", "100.0", 100, true},
                {"over", "300", 300, false},
                {"none", "?", std::nan(""), false}};
  const std::string svg = bar_chart_svg(chart);
  std::vector<double> widths;
  for (size_t at = svg.find("<rect"); at != svg.npos; at = svg.find("<rect", at + 1)) {
    widths.push_back(std::stod(svg.substr(svg.find("width=\"", at) + 7)));
  }
  ASSERT_EQ(widths.size(), 4u);
  EXPECT_NEAR(widths[1], 2 * widths[0], 0.2);
  EXPECT_EQ(widths[2], widths[1]);
  EXPECT_LT(widths[3], 1);
  expect_clean(svg);
}

TEST(HtmlTest, EscapesMarkupControlCharactersAndBrokenUtf8) {
  EXPECT_EQ(escape_text("<a href='x'>&\"</a>"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;&lt;/a&gt;");
  EXPECT_EQ(escape_text("é – 日本 🙂\n"), "é – 日本 🙂\n");
  EXPECT_EQ(escape_text(std::string_view("a\0b\x1b", 4)), "a\uFFFDb\uFFFD");
  EXPECT_EQ(escape_text("\xc3("), "\uFFFD(");                    // a sequence that breaks off
  EXPECT_EQ(escape_text("\xc0\xbc"), "\uFFFD\uFFFD");            // '<' in two bytes
  EXPECT_EQ(escape_text("\xe2\x82"), "\uFFFD\uFFFD");            // cut at the end
  EXPECT_EQ(escape_text("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
}

}  // namespace
}  // namespace lra
