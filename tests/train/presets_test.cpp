// The presets compiled into the program: all of them, without naming any but where numbers are known.
#include <gtest/gtest.h>

#include "base/embedded.h"
#include "base/file.h"
#include "models/model.h"
#include "support/temp_dir.h"
#include "train/run_config.h"

namespace lra {
namespace {

// configs/PROTOCOL/TASK/MODEL.yaml
struct Preset {
  std::string protocol, task, model, text;
  std::string name() const { return protocol + "/" + task + "/" + model; }
};

std::vector<Preset> model_presets() {
  std::vector<Preset> all;
  for (const auto& [file, text] : embedded_files()) {
    const fs::path path(std::string{file});
    const std::vector<std::string> parts(path.begin(), path.end());
    if (parts.size() == 4 && parts[0] == "configs") {
      all.push_back({parts[1], parts[2], path.stem().string(), std::string(text)});
    }
  }
  return all;
}

RunConfig resolve(const std::string& protocol, const std::string& task, const std::string& model) {
  ConfigRequest r;
  r.protocol = protocol, r.task = task, r.model = model;
  return resolve_config(r);
}

const ConfigTree* leaf(const ConfigTree& tree, const std::string& section, const std::string& key) {
  const ConfigTree* at = tree.find(section);
  return at ? at->find(key) : nullptr;
}

TEST(PresetsTest, ThereIsOneForEveryModelOfTheArenaOnEveryTaskOfItsTable) {
  for (const char* protocol : {"lra", "lra-code"}) {
    for (const char* task : {"listops", "text", "retrieval", "image", "pathfinder"}) {
      int found = 0;
      for (const auto& p : model_presets()) found += p.protocol == protocol && p.task == task ? 1 : 0;
      EXPECT_EQ(found, 11) << protocol << " " << task;
    }
  }
}

TEST(PresetsTest, EveryOneResolvesAndNamesAPublishedAccuracyWithItsSource) {
  for (const auto& p : model_presets()) {
    const RunConfig c = resolve(p.protocol, p.task, p.model);
    EXPECT_GT(c.published.value, 0) << p.name();
    EXPECT_FALSE(c.published.source.empty()) << p.name();
  }
}

// What a model's preset says must differ from the task's preset and the model's defaults.
TEST(PresetsTest, NoLineIsDead) {
  const TempDir dir;
  for (const auto& p : model_presets()) {
    write_text(dir.path() / "task.yaml",
               std::string(embedded_files().at("configs/" + p.protocol + "/" + p.task + ".yaml")));
    ConfigRequest below;
    below.protocol = "open", below.task = p.task, below.model = p.model;
    below.config_file = (dir.path() / "task.yaml").string();
    const ConfigTree under = resolve_config(below).tree(), with = resolve(p.protocol, p.task, p.model).tree();
    for (const auto& [section, lines] : parse_yaml(p.text, p.name()).children) {
      if (section == "published") continue;
      for (const auto& [key, line] : lines.children) {
        const ConfigTree *before = leaf(under, section, key), *after = leaf(with, section, key);
        ASSERT_TRUE(before && after) << p.name() << " " << section << "." << key;
        EXPECT_NE(before->value, after->value) << p.name() << " " << section << "." << key;
      }
    }
  }
}

struct Count {
  const char *task, *model;
  int64_t parameters;
};

// The numbers of the released code, of models whose structure is the same as ours. By formula: the tables of
// the Synthesizer have up to 137 million numbers. (That the formula is right is a property of every model.)
TEST(PresetsTest, ReleasedSizesHaveTheReleasedNumberOfParameters) {
  const auto sized = [](EncoderConfig c, const std::string& task) {
    const bool image = task == "image" || task == "pathfinder";
    c.vocab_size = task == "listops" ? 17 : image ? 256 : 257;
    c.num_classes = task == "listops" || task == "image" ? 10 : 2;
    c.max_length = task == "listops" ? 2000 : task == "text" ? 1000 : 1024;
    return c;
  };
  for (const Count& n : {Count{"listops", "transformer", 8'948'746},
                         Count{"listops", "local", 8'948'746},
                         Count{"listops", "sparse", 8'948'746},
                         Count{"listops", "bigbird", 8'948'746},
                         Count{"listops", "linear", 8'948'746},
                         Count{"listops", "performer", 8'948'746},
                         Count{"listops", "linformer", 9'076'810},
                         Count{"listops", "reformer", 6'851'594},
                         Count{"listops", "synthesizer", 137'076'778},
                         Count{"text", "transformer", 3'486'722},
                         Count{"text", "linformer", 3'550'786},
                         Count{"text", "reformer", 2'962'434},
                         Count{"text", "synthesizer", 19'518'738},
                         Count{"image", "transformer", 248'458},
                         Count{"image", "local", 248'202},
                         Count{"image", "sparse", 248'458},
                         Count{"image", "bigbird", 248'458},
                         Count{"image", "linformer", 264'858},
                         Count{"image", "reformer", 154'058},
                         Count{"image", "synthesizer", 8'653'458},
                         Count{"image", "linear", 248'458},
                         Count{"image", "performer", 248'458},
                         Count{"pathfinder", "transformer", 26'530},
                         Count{"pathfinder", "local", 54'338},
                         Count{"pathfinder", "sparse", 13'666},
                         Count{"pathfinder", "bigbird", 87'874},
                         Count{"pathfinder", "linformer", 30'050},
                         Count{"pathfinder", "reformer", 54'338},
                         Count{"pathfinder", "synthesizer", 8'442'946},
                         Count{"pathfinder", "linear", 116'098},
                         Count{"pathfinder", "performer", 26'530}}) {
    const RunConfig run = resolve("lra-code", n.task, n.model);
    const Model& model = find_model(n.model);
    const auto options = model.options();
    ConfigReader reader(run.model_options);
    options->visit(reader);
    const EncoderConfig c = sized(run.encoder, n.task);
    EXPECT_EQ(shell_parameters(c) + c.layers * model.block_parameters(c, *options), n.parameters)
        << n.task << " " << n.model;
  }
}

TEST(PresetsTest, SchedulesAreThoseOfTheReleasedCode) {
  const auto expect = [](const char* task, const char* schedule, double rate, int64_t warmup, int64_t steps,
                         int64_t batch) {
    const TrainConfig t = resolve("lra-code", task, "transformer").train;
    EXPECT_EQ(t.schedule, schedule) << task;
    EXPECT_DOUBLE_EQ(t.learning_rate, rate) << task;
    EXPECT_EQ(t.warmup, warmup) << task;
    EXPECT_EQ(t.steps, steps) << task;
    EXPECT_EQ(t.batch, batch) << task;
  };
  expect("listops", "rsqrt", 0.05, 1000, 5000, 32);
  expect("text", "rsqrt", 0.05, 8000, 20000, 32);
  expect("retrieval", "rsqrt", 0.05, 8000, 5000, 32);
  expect("image", "cosine", 5e-4, 175, 35000, 256);       // 200 epochs of 45 000 images
  expect("pathfinder", "cosine", 1e-3, 312, 62400, 512);  // 200 epochs of 160 000 images
  expect("pathfinder64", "cosine", 1e-3, 625, 125000, 256);
  expect("pathx", "cosine", 1e-3, 2500, 500000, 64);
  expect("pathfinder256", "cosine", 1e-3, 5000, 500000, 32);  // 100 epochs
}

}  // namespace
}  // namespace lra
