// A task: where its examples come from, how they read, how they are scored and what they are worth without
// learning.
//
// One file per task registers itself (docs/add-a-task.md):
//
//   const Registered<Task> listops(std::make_unique<ListOps>(), LRA_HERE);
//
// A task knows bytes and token ids; it knows no tensors, no devices and no models.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/json.h"
#include "base/registry.h"
#include "data/dataset.h"
#include "data/png.h"

namespace lra {

struct TaskInfo {
  std::string name;         // "listops"
  std::string title;        // "ListOps"
  std::string version;      // changes whenever the same options and seed give other bits
  std::string description;  // a paragraph for `lra tasks NAME`
  std::string source;       // the paper or the owner of the data
  int64_t vocab_size = 0, num_classes = 0, max_length = 0;
  std::optional<int64_t> pad_id;
  bool two_inputs = false;
  bool padding_inside = false;  // pad_id may stand anywhere in an example and is left out of the data
};

// Options that change the data's bits. They are visited under the task's name (`listops.brackets`), stored
// with the data and part of its identity.
class TaskOptions {
 public:
  virtual ~TaskOptions() = default;
  virtual void visit(Fields& fields) = 0;
};

// A file that its owners publish and `import` reads. Several tasks may name the same one.
struct Download {
  std::string name;                   // what `lra data get` calls it: "imdb"
  std::string url, file;              // where from, and its name on disk
  std::string sha256 = {}, md5 = {};  // hex; empty: not known
  int64_t bytes = 0;                  // 0: not known
  bool by_default = true;             // import this task when the file is asked for by its name
};

struct SplitCounts {
  int64_t train = 0, val = 0, test = 0;
  bool operator==(const SplitCounts&) const = default;
};

// Where `make` and `import` put examples, in the order in which each split will have them. Memory does not
// grow with them; nothing is visible to others before all of it is there.
class DataSink {
 public:
  virtual ~DataSink() = default;
  virtual void add(size_t split, const Tokens& tokens, int64_t label) = 0;  // split: an index into kSplits
  virtual void add(size_t split, const Tokens& first, const Tokens& second, int64_t label) = 0;
  // A folder for what does not fit into memory, removed in the end.
  virtual fs::path scratch() = 0;
  // The same, but it outlives a killed or failed attempt: the next one with the same version, options, counts
  // and seed finds in it what was left there, whole or cut off anywhere.
  virtual fs::path lasting_scratch() = 0;
};

// Examples of a small set in memory, and the notes that go into the manifest (ListOps: acceptance rate).
struct MadeData {
  Examples splits[3];  // in the order of kSplits
  Json notes = Json::object();

  Json deliver(DataSink& out) const;  // adds the examples, gives the notes
};

// A table a person reads, and the same as JSON.
struct Table {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::string note;
};
struct Stats {
  std::vector<Table> tables;
  Json json = Json::object();
};

// An accuracy reached without learning, to put beside every result.
struct Baseline {
  std::string name;  // "majority class"
  double accuracy = 0;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual const TaskInfo& info() const = 0;
  std::string_view name() const { return info().name; }

  virtual std::unique_ptr<TaskOptions> options(
      std::string_view size) const = 0;  // defaults of "full" or "tiny"
  virtual SplitCounts counts(std::string_view size) const = 0;

  // The task as the options make it (ListOps without brackets has another vocabulary).
  virtual TaskInfo info_for(const TaskOptions&) const { return info(); }

  // Whether `make` can generate this size; otherwise it has to be imported.
  virtual bool can_make(std::string_view /*size*/) const { return true; }
  // Both give back notes for the manifest: what only the maker knows.
  virtual Json make(const TaskOptions& options, const SplitCounts& counts, uint64_t seed,
                    DataSink& out) const;
  // From a folder or archive in the layout its owners publish.
  virtual Json import(const TaskOptions& options, const fs::path& from, DataSink& out) const;
  // Where `lra data get` finds what `import` takes, if its owners publish it.
  virtual std::optional<Download> download() const { return std::nullopt; }

  // What the task promises beyond the declared ids and labels (ListOps: the label is the tree's value);
  // throws.
  virtual void verify(const Dataset&) const {}
  // Compares a file that others published with the task's own rules; what agreed and what did not.
  virtual Json check_file(const fs::path& file) const;

  // One example as a person would want to see it.
  virtual std::string show(const Dataset& data, int64_t index) const = 0;
  // The same as a picture, for tasks that have one.
  virtual std::optional<GrayImage> picture(const Dataset&, int64_t /*index*/) const { return std::nullopt; }
  // One example as a line of the file its owners publish, and that file's first line; an error where there is
  // no such form.
  virtual std::string tsv_header() const;
  virtual std::string tsv_row(const Dataset& data, int64_t index) const;
  // Tables beyond the common ones (counts, labels, lengths), over all splits.
  virtual Stats stats(const std::vector<const Dataset*>& splits, const Json& notes) const = 0;
  // Fitted on `train`, measured on `test`.
  virtual std::vector<Baseline> baselines(const Dataset& train, const Dataset& test) const = 0;

  // Groups whose accuracy is reported separately (ListOps: the root operator); empty for none.
  virtual std::vector<std::string> group_names() const { return {}; }
  virtual int64_t group_of(const Dataset&, int64_t /*index*/) const { return 0; }

  // Known hashes of the benchmark's own data: {"default/train", sha256}.
  virtual std::vector<std::pair<std::string, std::string>> golden_hashes() const { return {}; }
};

Task& find_task(std::string_view name);

// ---- what the data commands do, for any task ----

struct MakeRequest {
  std::string size = "full";          // full or tiny
  std::optional<SplitCounts> counts;  // instead of the size's own
  std::vector<std::string> options;   // KEY=VALUE
  std::string variant;                // empty: derived from the above
  uint64_t seed = 0;
  bool force = false;  // overwrite data that is there
};
// Makes or imports and writes DATA/TASK/VARIANT; the manifest is written last, so a half-made folder is never
// taken for data. Data that is already there and would come out the same is left alone.
DataFolder make_data(const Task& task, const fs::path& root, const MakeRequest& request);
DataFolder import_data(const Task& task, const fs::path& root, const fs::path& from,
                       const MakeRequest& request);
// Downloads what `name` stands for (a file's name: imdb, cifar10, lra; or a task) to ROOT/.downloads and
// imports it into the tasks that read it.
struct GetRequest {
  std::string name = {};
  std::string from = {};  // another address, or a file that is there already; empty: its owners'
  std::vector<std::string> tasks = {};  // import these only; empty: those that the name stands for
  bool offline = false;                 // never touch the network
  MakeRequest make = {};
};
std::vector<DataFolder> get_data(const fs::path& root, const GetRequest& request);
// The size's defaults with `assignments` ("KEY=VALUE", with or without the task's name before the key) laid
// over them.
std::unique_ptr<TaskOptions> read_options(const Task& task, std::string_view size,
                                          const std::vector<std::string>& assignments);
Json options_json(TaskOptions& options);  // all fields, in their order
// "default", "tiny", or a name that says what differs: "tiny-brackets-dropped-n1000-200-200-seed3".
std::string derive_variant(const Task& task, const MakeRequest& request);
// The request that such a name stands for; nothing for a name of somebody's own. "imported" stands for the
// defaults.
std::optional<MakeRequest> request_of_variant(const Task& task, const std::string& variant);
Json read_manifest(const DataFolder& folder);
// Recomputes every hash, checks every value, finds examples shared between splits; throws on the first
// failure group.
Json verify_data(const Task& task, const DataFolder& folder);
Stats data_stats(const Task& task, const DataFolder& folder);
std::vector<DataFolder> list_data(const fs::path& root);

}  // namespace lra
