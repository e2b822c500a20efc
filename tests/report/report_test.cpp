#include "report/report.h"

#include <regex>

#include <gtest/gtest.h>

#include "report/run_fixture.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

class ReportTest : public testing::Test {
 protected:
  fs::path add(const std::string& name, const RunFixture& run) {
    write_fixture_run(folder_ / name, run);
    return folder_ / name;
  }
  std::string page(const std::vector<fs::path>& runs) {
    write_report(runs, folder_ / "report.html");
    return read_text(folder_ / "report.html");
  }
  // The text between two marks, the first after `from`.
  static std::string part(const std::string& text, const std::string& from, const std::string& to) {
    const size_t start = text.find(from);
    return start == text.npos ? "" : text.substr(start, text.find(to, start) - start);
  }
  TempDir folder_;
};

TEST_F(ReportTest, ARowShowsTheNumbersOfTheRunInPercentWithBaselinesAndPublished) {
  const std::string row = part(page({add("a", {})}), "<tbody>", "</tbody>");
  for (const char* text : {"transformer",
                           "listops",
                           "version 1",
                           "default",
                           "19\u202F924\u202F490",
                           "5\u202F000",
                           "best at 4\u202F000",
                           "37.45",
                           "36.85",
                           "34.8–39.0",
                           "36.65",
                           "36.10",
                           "2\u202F000",
                           "17.00",
                           "majority class",
                           "36.10 <span",
                           "root operator",
                           "36.37",
                           "Tay et al. 2021, table 1",
                           "1 h 10 min",
                           "AMD EPYC 9354",
                           "SHA-256 3f5a9c0be1d27486aa10",
                           ">3f5a9c0b<"}) {
    EXPECT_TRUE(contains(row, text)) << text << "\n" << row;
  }
}

TEST_F(ReportTest, AResultSaysWhichBaselinesItHasLeftBehind) {
  const auto plateau_of = [&](double reached) {
    RunFixture run;
    run.reached = reached;
    const std::string html = page({add(fmt::format("at-{}", reached), run)});
    const std::string row = part(html, "<tbody>", "</tbody>");
    return row.substr(row.find("root operator</span></span>"));
  };
  EXPECT_TRUE(contains(plateau_of(0.3685), "on the plateau: root operator"));
  EXPECT_TRUE(contains(plateau_of(0.175), "on the plateau: majority class"));
  EXPECT_TRUE(contains(plateau_of(0.25), "above majority class"));
  EXPECT_TRUE(contains(plateau_of(0.45), "above all"));
  EXPECT_TRUE(contains(plateau_of(0.1), "below all"));
}

TEST_F(ReportTest, ARunThatDepartsFromItsPresetIsMarkedAndStandsBesideNoPublishedNumber) {
  RunFixture run;
  run.departures = {{"model.layers", {6, 1}}, {"task.variant", {"default", "tiny"}}};
  const std::string html = page({add("a", run)}), summary = part(html, "<ul class=\"summary\">", "</ul>"),
                    row = part(html, "<tbody>", "</tbody>"),
                    of_run = part(html, "<section id=\"runs\">", "</section>");
  const std::string list = "model.layers 1 instead of 6, task.variant tiny instead of default";
  EXPECT_TRUE(contains(summary, "not comparable</span> Departs from the preset: " + list)) << summary;
  EXPECT_TRUE(contains(row, ">departs from the preset</span>")) << row;
  EXPECT_TRUE(contains(part(html, "<ol class=\"notes\">", "</ol>"), "<li>Not comparable: " + list + "</li>"));
  EXPECT_TRUE(contains(of_run, list));
  EXPECT_FALSE(contains(summary, "36.37") || contains(row, "36.37"));
}

TEST_F(ReportTest, ASourceStandsOnceBelowTheTableAndItsNumberBesideEachPublishedOne) {
  RunFixture first, second;
  second.model = "longformer", second.published = {{"value", 35.63}, {"source", "Another table"}};
  const std::string html = page({add("a", first), add("b", first), add("c", second)}),
                    rows = part(html, "<tbody>", "</tbody>"),
                    notes = part(html, "<ol class=\"notes\">", "</ol>");
  EXPECT_EQ(count(rows, "36.37 <sup"), 2u);
  EXPECT_TRUE(contains(rows, ">1</sup>") && contains(rows, ">2</sup>")) << rows;
  EXPECT_EQ(count(notes, "<li>Tay et al. 2021, table 1</li>"), 1u) << notes;
  EXPECT_EQ(count(notes, "<li>"), 2u) << notes;
}

TEST_F(ReportTest, TimesSpeedsAndReasonsReadAsAPersonWouldSayThem) {
  RunFixture run;
  run.wall_seconds = 0.25;
  run.examples_per_s = 45550.3;
  const std::string runs = part(page({add("a", run)}), "<section id=\"runs\">", "</section>");
  for (const char* text : {"<dt>Build</dt><dd>Release", "<dt>System</dt><dd>Linux", "<dd>0.2 s</dd>",
                           "<dd>45\u202F550 examples/s</dd>", "<dd>its last step was reached</dd>"}) {
    EXPECT_TRUE(contains(runs, text)) << text << "\n" << runs;
  }
}

TEST_F(ReportTest, ProtocolsNeverShareATable) {
  RunFixture tiny;
  tiny.protocol = "tiny";
  tiny.reached = 0.3100;
  const std::string html = page({add("a", {}), add("b", tiny)});
  const std::string lra = part(html, "<table class=\"results\">", "</table>");
  EXPECT_TRUE(contains(lra, "36.85"));
  EXPECT_FALSE(contains(lra, "31.00"));
  EXPECT_EQ(count(html, "<table class=\"results\">"), 2u);
  EXPECT_TRUE(contains(html, "Protocol tiny <span class=\"badge warn\">not comparable</span>"));
  EXPECT_EQ(count(html, "id=\"loss-"), 4u);  // a figure for each protocol, its title and description
}

TEST_F(ReportTest, RunsOfOneTaskShareAFigureWithBaselinesAndTheirNames) {
  RunFixture other;
  other.model = "longformer";
  const std::string html = page({add("a", {}), add("b", other)});
  const std::string figure = part(html, "<figure>", "</figure>");
  EXPECT_EQ(count(figure, "class=\"line\""), 4u);
  EXPECT_EQ(count(figure, "class=\"reference-line\""), 2u);
  EXPECT_TRUE(contains(figure, ">longformer</text>") && contains(figure, ">transformer</text>"));
  EXPECT_EQ(count(html, "<figure>"), 1u);
}

TEST_F(ReportTest, RunsThatDifferInTheirSeedAreToldApart) {
  RunFixture other;
  other.seed = 4;
  const std::string html = page({add("a", {}), add("b", other)});
  EXPECT_TRUE(contains(html, ">transformer s0</text>") && contains(html, ">transformer s4</text>"));
}

TEST_F(ReportTest, GroupsStandBesideTheOverallNumberOfTheSameRun) {
  const std::string table = part(page({add("a", {})}), "<table class=\"groups\">", "</table>");
  for (const char* text : {"MIN", "MAX", "MED", "SM", "All", "57.20", "36.85", "n = 500"}) {
    EXPECT_TRUE(contains(table, text)) << text;
  }
}

TEST_F(ReportTest, AnUnfinishedRunIsMarkedAndStillHasItsCurves) {
  RunFixture run;
  run.finished = false;
  const std::string html = page({add("a", run)});
  EXPECT_TRUE(contains(html, "not finished"));
  EXPECT_TRUE(contains(html, "class=\"line\""));
  EXPECT_FALSE(contains(html, "36.85"));
}

TEST_F(ReportTest, ShowsEnvironmentCommandAndConfiguration) {
  const std::string runs = part(page({add("a", {})}), "<section id=\"runs\">", "</section>");
  for (const char* text : {"1a2b3c4d5e6f", "2.11.0", "GNU 12.2.0", "node17", "<dd>16</dd>", "schedule: rsqrt",
                           "--protocol lra --set &#39;train.note=two words&#39;", "<details>",
                           "3f5a9c0be1d27486aa10cc9356be77d04f10e8a2b6d90c117e5532fd8c4b6a19"}) {
    EXPECT_TRUE(contains(runs, text)) << text;
  }
}

TEST_F(ReportTest, NothingFromAFileBecomesMarkup) {
  RunFixture run;
  run.model = run.task = run.protocol = run.variant = "</title></style><script>alert(1)</script>";
  run.published = {{"value", 1.5}, {"source", "<img src=x onerror=alert(1)>"}};
  const fs::path folder = folder_ / "<i>a";
  write_fixture_run(folder, run);
  put_text(folder / "config.yaml", "note: \"</pre><script>x</script>\"\n");
  put_text(folder / "env.json", R"({"host": "<b>", "<u>": "\u0000<s>"})");
  const std::string html = page({folder});
  for (const char* tag : {"<script", "<img", "<b>n", "<u>", "<s>", "<i>"})
    EXPECT_FALSE(contains(html, tag)) << tag;
  EXPECT_EQ(count(html, "</title>"), count(html, "<title>") + count(html, "<title id="));
}

TEST_F(ReportTest, NoRequestLeavesThePage) {
  const std::string html = page({add("a", {})});
  EXPECT_TRUE(contains(html,
                       "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                       "'unsafe-inline'; img-src data:\""));
  EXPECT_FALSE(contains(html, "http://") || contains(html, "https://") || contains(html, "url(") ||
               contains(html, "@import") || contains(html, " src="));
  const std::regex link("href=\"([^\"]*)\"");
  for (auto at = std::sregex_iterator(html.begin(), html.end(), link); at != std::sregex_iterator(); ++at) {
    const std::string target = (*at)[1];
    const bool here = target[0] == '#' && contains(html, "id=\"" + target.substr(1) + "\"");
    EXPECT_TRUE(here || target == "data:,") << target;
  }
}

TEST_F(ReportTest, HasWhatAccessibilityDarkModeAndPrintNeed) {
  const std::string html = page({add("a", {})});
  for (const char* text :
       {"<html lang=\"en\">", "<title>Long Range Arena: transformer on listops</title>", "<h1>", "<caption>",
        "scope=\"row\"", "role=\"img\"", "prefers-color-scheme: dark", "@media print", "name=\"viewport\""}) {
    EXPECT_TRUE(contains(html, text)) << text;
  }
  EXPECT_EQ(count(html, "<table"), count(html, "<caption>"));
}

TEST_F(ReportTest, TheSameRunsGiveTheSameBytes) {
  const fs::path run = add("a", {});
  EXPECT_EQ(page({run}), page({run}));
}

TEST_F(ReportTest, ManyLoggedValuesAreThinnedAndTheCaptionSaysSo) {
  RunFixture run;
  run.train_rows = 20000;
  run.steps = 20000;
  const std::string html = page({add("a", run)});
  EXPECT_LT(html.size(), 120'000u);
  EXPECT_TRUE(contains(html, "mean of up to 67 logged values"));
}

TEST_F(ReportTest, NoRunsAndABrokenRunAreErrorsAndWriteNothing) {
  EXPECT_TRUE(contains(error_text([&] { write_report({}, folder_ / "out.html"); }), "no run"));
  const fs::path run = add("a", {});
  put_text(run / "result.json", "{");
  EXPECT_TRUE(contains(error_text([&] { write_report({run}, folder_ / "out.html"); }), "result.json"));
  EXPECT_FALSE(fs::exists(folder_ / "out.html"));
}

}  // namespace
}  // namespace lra
