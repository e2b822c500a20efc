#include "runs/checkpoint.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

std::vector<NamedTensor> tensors(const std::vector<float>& values) {
  return {{"w",
           {DType::kF32,
            {static_cast<int64_t>(values.size())},
            {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}}}};
}

TEST(CheckpointTest, IsReplacedAsAWhole) {
  const TempDir dir;
  for (const float value : {1.f, 2.f}) {
    const std::vector<float> w(5, value);
    save_checkpoint(dir.path(), "last", tensors(w), tensors(w), Json{{"step", value}});
  }
  const Checkpoint c = open_checkpoint(dir.path(), "last");
  EXPECT_EQ(c.model.at("w").as<float>()[4], 2.f);
  EXPECT_EQ(c.state["step"], 2.f);
  EXPECT_FALSE(fs::exists(dir.path() / "checkpoints/last.new"));
}

TEST(CheckpointTest, AHalfWrittenOneIsNotTakenForTheOldOne) {
  const TempDir dir;
  const std::vector<float> w(5, 1.f);
  save_checkpoint(dir.path(), "last", tensors(w), tensors(w), Json{{"step", 1}});
  fs::create_directories(dir.path() / "checkpoints/last.new");
  write_text(dir.path() / "checkpoints/last.new/model.safetensors", "half");
  EXPECT_EQ(open_checkpoint(dir.path(), "last").state["step"], 1);
  save_checkpoint(dir.path(), "last", tensors(w), tensors(w), Json{{"step", 2}});
  EXPECT_EQ(open_checkpoint(dir.path(), "last").state["step"], 2);
}

TEST(CheckpointTest, AKillBetweenTwoRenamesIsMended) {
  const TempDir dir;
  const std::vector<float> w(5, 1.f);
  save_checkpoint(dir.path(), "last", tensors(w), tensors(w), Json{{"step", 1}});
  fs::rename(dir.path() / "checkpoints/last", dir.path() / "checkpoints/last.old");
  EXPECT_EQ(open_checkpoint(dir.path(), "last").state["step"], 1);
}

TEST(CheckpointTest, AMissingOneSaysSo) {
  const TempDir dir;
  EXPECT_THROW(open_checkpoint(dir.path(), "best"), Error);
}

TEST(CheckpointTest, ADamagedOneSaysWhichOtherIsWholeAndWhatToDo) {
  const TempDir dir;
  const std::vector<float> w(5, 1.f);
  save_checkpoint(dir.path(), "last", tensors(w), tensors(w), Json{{"step", 30}});
  save_checkpoint(dir.path(), "best", tensors(w), tensors(w), Json{{"step", 20}});
  const auto damage = [&](const char* name) {
    fs::resize_file(dir.path() / "checkpoints" / name / "model.safetensors", 12);
  };
  const auto message = [&](const char* name) {
    return error_text([&] { open_checkpoint(dir.path(), name); });
  };
  damage("last");
  EXPECT_NE(message("last").find("checkpoints/best is whole: remove " + dir.path().string() +
                                 "/checkpoints/last, then --resume goes on from it (step 20)."),
            std::string::npos)
      << message("last");
  damage("best");
  EXPECT_NE(message("last").find("checkpoints/best cannot be read either"), std::string::npos);
  save_checkpoint(dir.path(), "last", tensors(w), tensors(w), Json{{"step", 30}});
  EXPECT_NE(message("best").find("--checkpoint last"), std::string::npos) << message("best");
}

TEST(CheckpointTest, AFlippedBitIsNoticed) {
  const TempDir dir;
  const std::vector<float> w(5, 1.f);
  for (const std::string file : {"model", "optimizer"}) {
    SCOPED_TRACE(file);
    save_checkpoint(dir.path(), "last", tensors(w), tensors(w), Json{{"step", 30}});
    const fs::path path = dir.path() / "checkpoints/last" / (file + ".safetensors");
    std::string bytes = read_text(path);
    bytes.back() ^= 1;
    write_text(path, bytes);
    const std::string error = error_text([&] { open_checkpoint(dir.path(), "last").optimizer(); });
    EXPECT_NE(error.find("[" + path.string() + "] damaged"), std::string::npos) << error;
  }
}

TEST(CheckpointTest, OneWithoutHashesIsTakenAsItIs) {
  const TempDir dir;
  const std::vector<float> w(5, 1.f);
  save_checkpoint(dir.path(), "last", tensors(w), tensors(w), Json{{"step", 30}});
  write_text(dir.path() / "checkpoints/last/state.json", R"({"step": 30})");
  EXPECT_NO_THROW(open_checkpoint(dir.path(), "last").optimizer().at("w"));
}

TEST(CheckpointTest, OpensInPythonsSafetensors) {
  const std::string source = LRA_SOURCE_DIR;
  std::string python;
  for (const std::string& candidate : {source + "/.venv/bin/python", std::string("python3")}) {
    if (std::system((candidate + " -c 'import safetensors, numpy' 2>/dev/null").c_str()) == 0)
      python = candidate;
    if (!python.empty()) break;
  }
  if (python.empty())
    GTEST_SKIP() << "no Python with safetensors and numpy here (make test installs them where it can)";
  const TempDir dir;
  const std::vector<float> w = {1.5f, -2.f, 3.25f};
  save_checkpoint(dir.path(), "last", tensors(w), tensors(w), Json::object());
  dir.write("read.py",
            "import sys\nfrom safetensors.numpy import load_file\n"
            "w = load_file(sys.argv[1])['w']\nassert w.dtype == 'float32' and w.tolist() == [1.5, -2.0, "
            "3.25], w\n");
  const std::string command = fmt::format("{} {} {}", python, (dir / "read.py").string(),
                                          (dir.path() / "checkpoints/last/model.safetensors").string());
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace lra
