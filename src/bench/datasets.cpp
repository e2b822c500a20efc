#include "bench/datasets.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "tasks/task.h"

namespace lra {
namespace {

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "lra-bench-XXXXXX").string();
    if (!::mkdtemp(name.data())) fail("bench", "{}: cannot make a temporary folder.", name);
    path_ = name;
  }
  ~Folder() {
    std::error_code code;
    fs::remove_all(path_, code);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

double seconds_of(const std::function<void()>& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Printable text: what reviews and papers are made of.
std::string random_text(Rng& rng, size_t size) {
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>(32 + rng.below(95));
  return text;
}

void write(const fs::path& file, const std::string& bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void write_cifar(const fs::path& folder) {
  Rng rng(0, stream_id("bench.cifar"));
  for (const char* name :
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
    std::string bytes(10'000 * 3'073, '\0');
    for (char& c : bytes) c = static_cast<char>(rng.next());
    for (size_t i = 0; i < 10'000; ++i) bytes[i * 3'073] = static_cast<char>(i % 10);
    write(folder / fmt::format("{}.bin", name), bytes);
  }
}

void write_reviews(const fs::path& folder, int count) {
  Rng rng(0, stream_id("bench.reviews"));
  for (const char* part : {"train/neg", "train/pos", "test/neg", "test/pos"}) {
    for (int i = 0; i < count; ++i) {
      write(folder / part / fmt::format("{}_7.txt", i), random_text(rng, 300 + rng.below(2'000)));
    }
  }
}

double write_pairs(const fs::path& folder, int count) {
  Rng rng(0, stream_id("bench.pairs"));
  double bytes = 0;
  for (const auto& [split, rows] :
       {std::pair("train", count), std::pair("eval", count / 8), std::pair("test", count / 8)}) {
    std::string text;
    for (int i = 0; i < rows; ++i) {
      text += fmt::format("{}.0\tA{}\tB{}\t{}\t{}\n", i % 2, i, i, random_text(rng, 6'000),
                          random_text(rng, 6'000));
    }
    write(folder / fmt::format("new_aan_pairs.{}.tsv", split), text);
    bytes += static_cast<double>(text.size());
  }
  return bytes;
}

}  // namespace

std::vector<DatasetRow> run_dataset_bench() {
  const Folder folder;
  const fs::path data = folder / "data";
  std::vector<DatasetRow> rows;
  const auto make = [&](const char* task, int64_t train, const char* unit) {
    info("making {}", task);
    MakeRequest request;
    request.counts = SplitCounts{train, train / 10, train / 10};
    const double examples = static_cast<double>(train + 2 * (train / 10));
    rows.push_back(
        {task, "make", examples, unit, seconds_of([&] { make_data(find_task(task), data, request); })});
  };
  const auto import = [&](const char* task, const fs::path& from, double amount, const char* unit) {
    info("importing {}", task);
    DataFolder made;
    rows.push_back({task, "import", amount, unit,
                    seconds_of([&] { made = import_data(find_task(task), data, from, {}); })});
    rows.push_back({task, "open", 3, "splits", seconds_of([&] {
                      for (const char* split : kSplits) made.open(split);
                    })});
  };
  make("listops", 80'000, "trees");
  make("pathfinder", 20'000, "images");
  make("pathx", 1'000, "images");
  write_cifar(folder / "cifar");
  import("image", folder / "cifar", 60'000, "images");
  write_reviews(folder / "aclImdb", 2'500);
  import("text", folder / "aclImdb", 10'000, "reviews");
  const double bytes = write_pairs(folder / "pairs", 20'000);
  import("retrieval", folder / "pairs", bytes / 1e6, "MB");
  return rows;
}

Json dataset_json(const std::vector<DatasetRow>& rows) {
  Json list = Json::array();
  for (const DatasetRow& r : rows) {
    list.push_back({{"task", r.task},
                    {"what", r.what},
                    {"amount", r.amount},
                    {"unit", r.unit},
                    {"seconds", r.seconds},
                    {"per_second", r.amount / r.seconds}});
  }
  return {{"datasets", list}};
}

}  // namespace lra
