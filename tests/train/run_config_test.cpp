#include "train/run_config.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

ConfigRequest listops(std::string protocol, std::vector<std::string> set = {}) {
  ConfigRequest r;
  r.model = "transformer";
  r.task = "listops";
  r.protocol = std::move(protocol);
  r.set = std::move(set);
  return r;
}

TEST(RunConfigTest, PresetsHoldTheSizesOfThePaperAndOfTheReleasedCode) {
  const RunConfig paper = resolve_config(listops("lra")), code = resolve_config(listops("lra-code"));
  EXPECT_EQ(paper.encoder.layers, 6);
  EXPECT_EQ(paper.encoder.ff_width, 2048);
  EXPECT_EQ(code.encoder.layers, 4);
  EXPECT_EQ(code.encoder.ff_width, 1024);
  EXPECT_DOUBLE_EQ(paper.published.value, 36.37);
  EXPECT_NE(paper.published.source.find("Table 1"), std::string::npos);
}

TEST(RunConfigTest, SetWinsOverTheFileWhichWinsOverThePreset) {
  const TempDir dir;
  write_text(dir.path() / "mine.yaml", "train:\n  steps: 70\n  batch: 8\n");
  ConfigRequest r = listops("lra", {"train.batch=4"});
  r.config_file = (dir.path() / "mine.yaml").string();
  const RunConfig c = resolve_config(r);
  EXPECT_EQ(c.train.steps, 70);
  EXPECT_EQ(c.train.batch, 4);
  EXPECT_EQ(c.train.warmup, 1000);
}

TEST(RunConfigTest, TheResolvedFileResolvesToItself) {
  const TempDir dir;
  RunConfig c =
      resolve_config(listops("tiny", {"seed=5", "model.dropout=0.15", "train.learning_rate=0.0003"}));
  const std::string yaml = to_yaml(c.tree());
  write_text(dir.path() / "config.yaml", yaml);
  ConfigRequest again;
  again.config_file = (dir.path() / "config.yaml").string();
  RunConfig repeated = resolve_config(again);
  EXPECT_EQ(to_yaml(repeated.tree()), yaml);
  RunConfig read = read_run_config(yaml, "config.yaml");
  EXPECT_EQ(to_yaml(read.tree()), yaml);
}

TEST(RunConfigTest, AnUnknownKeyIsRefusedWithTheNearestName) {
  const std::string text = error_text([] { resolve_config(listops("lra", {"train.stepz=5"})); });
  EXPECT_NE(text.find("train.stepz"), std::string::npos) << text;
  EXPECT_NE(text.find("'steps'"), std::string::npos) << text;
}

TEST(RunConfigTest, ATypeErrorNamesFileAndLine) {
  const TempDir dir;
  const std::string file = (dir.path() / "bad.yaml").string();
  write_text(file, "model:\n  layers: 2\ntrain:\n  batch: many\n");
  ConfigRequest r = listops("lra");
  r.config_file = file;
  const std::string text = error_text([&] { resolve_config(r); });
  EXPECT_NE(text.find(file + " line 4"), std::string::npos) << text;
  EXPECT_NE(text.find("'many'"), std::string::npos) << text;
}

TEST(RunConfigTest, ValuesOutOfRangeAreRefused) {
  for (const char* set :
       {"train.batch=0", "model.dropout=1.5", "train.steps=-3", "seed=-1", "train.learning_rate=nan"}) {
    EXPECT_THROW(resolve_config(listops("lra", {set})), Error) << set;
  }
}

TEST(RunConfigTest, WhatNoSingleFieldCanSayIsCheckedToo) {
  EXPECT_THROW(resolve_config(listops("lra", {"model.heads=7"})), Error);
  EXPECT_THROW(resolve_config(listops("lra", {"train.batch=10", "train.micro_batches=3"})), Error);
}

TEST(RunConfigTest, UnknownNamesListTheNearest) {
  ConfigRequest r = listops("lra");
  r.model = "transformr";
  EXPECT_NE(error_text([&] { resolve_config(r); }).find("Did you mean 'transformer'?"), std::string::npos);
  r = listops("lra-cod");
  EXPECT_NE(error_text([&] { resolve_config(r); }).find("Did you mean 'lra-code'?"), std::string::npos);
}

TEST(RunConfigTest, ContradictingNamesAreRefused) {
  EXPECT_THROW(resolve_config(listops("lra", {"model.name=performer"})), Error);
}

std::vector<std::string> departing(const ConfigRequest& r) {
  std::vector<std::string> keys;
  for (const Departure& d : departures(resolve_config(r))) keys.push_back(d.key);
  return keys;
}

TEST(RunConfigTest, ARunDepartsWhereItsNumbersMayDifferFromThePresets) {
  EXPECT_EQ(departing(listops("lra")), std::vector<std::string>{});
  ConfigRequest r = listops("lra", {"model.layers=1", "task.variant=tiny"});
  r.steps = 60;
  EXPECT_EQ(departing(r), (std::vector<std::string>{"task.variant", "model.layers", "train.stop_after"}));
  EXPECT_EQ(departures_json(departures(resolve_config(r))).dump(),
            R"({"task.variant":["default","tiny"],"model.layers":[6,1],"train.stop_after":[5000,60]})");
  EXPECT_EQ(departures_text(departures(resolve_config(r)), 2),
            "task.variant tiny instead of default, model.layers 1 instead of 6 and 1 more");
  EXPECT_EQ(departing(listops("lra", {"train.learning_rate=0.04", "published.value=99"})),
            (std::vector<std::string>{"train.learning_rate", "published.value"}));
}

TEST(RunConfigTest, SeedMachineLogAndMemoryAreNoDepartures) {
  ConfigRequest r =
      listops("lra", {"train.log_every=3", "train.checkpoint_every=7", "train.micro_batches=4",
                      "train.eval_batch=8", "train.device_data_mb=1", "transformer.attention=unfused"});
  r.seed = 5, r.device = "cpu", r.dtype = "fp32", r.deterministic = true;
  r.steps = 5000;  // all there are
  EXPECT_EQ(departing(r), std::vector<std::string>{});
}

TEST(RunConfigTest, WithoutAPresetNothingDeparts) {
  EXPECT_EQ(departing(listops("open", {"model.layers=1"})), std::vector<std::string>{});
}

TEST(RunConfigTest, JsonHasTheKeysOfTheFileWithTheirTypes) {
  RunConfig c = resolve_config(listops("lra", {"task.variant=5"}));
  const Json json = c.json();
  EXPECT_EQ(json["task"]["variant"], "5");
  EXPECT_EQ(json["model"]["layers"], 6);
  EXPECT_EQ(json["train"]["learning_rate"], 0.05);
  EXPECT_EQ(json["deterministic"], false);
  EXPECT_EQ(json["transformer"]["attention"], "fused");
  EXPECT_EQ(json.flatten().size(), [&] {
    size_t leaves = 0;
    for (const auto& [key, child] : c.tree().children) leaves += std::max<size_t>(1, child.children.size());
    return leaves;
  }());
}

TEST(RunConfigTest, EveryKeyOfTheFileIsExplained) {
  RunConfig c = resolve_config(listops("lra"));
  const Json json = c.json().flatten();
  for (const FieldInfo& field : config_fields("transformer")) {
    EXPECT_FALSE(field.help.empty()) << field.key;
    std::string pointer = "/" + field.key;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    EXPECT_TRUE(json.contains(pointer)) << field.key;
  }
  EXPECT_EQ(config_fields("transformer").size(), json.size());
}

TEST(RunConfigTest, HostileYamlIsAnErrorAndNeverACrash) {
  const TempDir dir;
  const std::string file = (dir.path() / "hostile.yaml").string();
  const std::string deep(100000, '[');
  std::string nested;
  for (int i = 0; i < 200; ++i) nested += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  for (const std::string& text :
       {deep, nested, std::string("train: [1, 2]"), std::string("- a\n- b"),
        std::string("train: &x\n  steps: *y"), std::string("a: b: c"), std::string("train:\n\tsteps: 3"),
        std::string("\0\0", 2), std::string("train:\n  steps: 1\n  steps: 2"), std::string("{")}) {
    write_text(file, text);
    ConfigRequest r = listops("lra");
    r.config_file = file;
    EXPECT_THROW(resolve_config(r), Error) << text.substr(0, 40);
  }
}

}  // namespace
}  // namespace lra
