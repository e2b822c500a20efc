// label: slow
// The page as a browser shows it: Chromium without a window loads the file and tells what it made of it.
#include <cstdio>
#include <regex>

#include <gtest/gtest.h>

#include "report/report.h"
#include "report/run_fixture.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) return output;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.append(buffer, n);
  ::pclose(pipe);
  return output;
}

std::string browser() {
  const std::string found =
      output_of("command -v chromium || command -v chromium-browser || command -v google-chrome");
  return found.substr(0, found.find('\n'));
}

// Words as a reader meets them: the DOM without style, tags and entities.
std::string visible_text(const std::string& dom) {
  std::string text = dom;  // by hand: std::regex recurses once a character of a style sheet
  for (size_t at; (at = text.find("<style>")) != text.npos;) {
    const size_t end = text.find("</style>", at);
    text.replace(at, end == text.npos ? text.npos : end + 8 - at, " ");
  }
  text = std::regex_replace(text, std::regex("<[^>]*>"), " ");
  for (const auto& [entity, plain] :
       {std::pair{"&amp;", "&"}, {"&#39;", "'"}, {"&quot;", "\""}, {"&lt;", "<"}, {"&gt;", ">"}}) {
    for (size_t at = 0; (at = text.find(entity, at)) != text.npos;)
      text.replace(at, std::string(entity).size(), plain);
  }
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

class BrowserTest : public testing::Test {
 protected:
  void SetUp() override {
    chromium_ = browser();
    if (chromium_.empty()) {
      GTEST_SKIP() << "there is no Chromium here: apt-get install -y --no-install-recommends chromium";
    }
    RunFixture other;
    other.model = "longformer";
    other.reached = 0.3590;
    other.published = {{"value", 35.63}, {"source", "Tay et al. 2021, table 1"}};
    write_fixture_run(folder_ / "a", {});
    write_fixture_run(folder_ / "b", other);
    write_report({folder_ / "a", folder_ / "b"}, folder_ / "report.html");
  }
  // What Chromium prints, errors included (they name the console and the network).
  std::string chromium(const std::string& options, const std::string& page = "report.html") const {
    return output_of(fmt::format(
        "timeout 60 '{}' --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir='{}' "
        "--enable-logging=stderr {} 'file://{}' 2>'{}'",
        chromium_, (folder_ / "profile").string(), options, (folder_ / page).string(),
        (folder_ / "log").string()));
  }
  std::string log() const { return read_text(folder_ / "log"); }
  // A page that shows the report in a frame of this width and says how wide the report's body became.
  std::string probe(int width) const {
    // The report's own policy forbids scripts: the page around it measures.
    return fmt::format(
        "<!DOCTYPE html><iframe id=f src=report.html "
        "style='width:{}px;height:900px;border:0'></iframe><script>"
        "onload = () => {{ const d = document.getElementById('f').contentDocument;"
        "document.title = 'scroll ' + d.documentElement.scrollWidth + ' of ' + "
        "d.documentElement.clientWidth; }}"
        "</script>",
        width);
  }

  TempDir folder_;
  std::string chromium_;
};

TEST_F(BrowserTest, AReaderSeesTheNumbersTheBaselinesAndTheSource) {
  const std::string text = visible_text(chromium("--dump-dom"));
  for (const char* words : {"Long Range Arena: results", "Protocol lra", "transformer", "longformer", "36.85",
                            "34.8–39.0", "35.90", "17.00 majority class", "36.10 root operator", "36.37 1",
                            "Tay et al. 2021, table 1", "Training loss", "Validation accuracy, %",
                            "Accuracy by group", "MED", "Configuration", "1a2b3c4d5e6f"}) {
    EXPECT_TRUE(contains(text, words)) << words;
  }
}

TEST_F(BrowserTest, TheCurvesAreDrawnAndTheDomAsksForNothingOutside) {
  const std::string dom = chromium("--dump-dom");
  EXPECT_TRUE(std::regex_search(dom, std::regex("<path class=\"line\" d=\"M[0-9. ML]{200,}")));
  EXPECT_TRUE(contains(dom, "default-src 'none'"));
  EXPECT_FALSE(std::regex_search(dom, std::regex("(src|href)=\"(https?:)?//")));
  EXPECT_FALSE(contains(log(), "CONSOLE")) << log();
  EXPECT_FALSE(contains(log(), "Refused to")) << log();
}

TEST_F(BrowserTest, TheBodyNeverScrollsSideways) {
  for (const int width : {1280, 400, 320}) {
    put_text(folder_ / "probe.html", probe(width));
    const std::string dom =
        chromium("--allow-file-access-from-files --virtual-time-budget=3000 --dump-dom", "probe.html");
    std::smatch found;
    ASSERT_TRUE(std::regex_search(dom, found, std::regex("scroll ([0-9]+) of ([0-9]+)"))) << dom;
    EXPECT_EQ(found[1], std::to_string(width));
    EXPECT_EQ(found[2], std::to_string(width));
  }
}

TEST_F(BrowserTest, LightAndDarkPicturesAreTakenAndDiffer) {
  chromium(fmt::format("--window-size=1280,1600 --screenshot='{}'", (folder_ / "light.png").string()));
  chromium(fmt::format("--window-size=1280,1600 --blink-settings=preferredColorScheme=0 --screenshot='{}'",
                       (folder_ / "dark.png").string()));
  const std::string light = read_text(folder_ / "light.png"), dark = read_text(folder_ / "dark.png");
  EXPECT_EQ(light.substr(1, 3), "PNG");
  EXPECT_GT(light.size(), 50'000u);  // an empty page is a tenth of that
  EXPECT_GT(dark.size(), 50'000u);
  EXPECT_NE(light, dark);
}

}  // namespace
}  // namespace lra
