// Making and importing a task's data. The three splits and the manifest are written to a folder beside the
// target, which then takes the target's place in one step: whenever the program is stopped, the old data, the
// new data or nothing is there. A lock keeps two processes from making the same data at once.
#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "base/signals.h"
#include "data/split_writer.h"
#include "tasks/task.h"

namespace lra {
namespace {

const std::vector<std::string> kSizes = {"full", "tiny"};

void check_size(std::string_view size) {
  if (std::find(kSizes.begin(), kSizes.end(), size) == kSizes.end()) {
    fail("data", "there is no size '{}'. {}", size, suggestion(size, kSizes));
  }
}

void check_variant_name(std::string_view variant) {
  const bool plain = !variant.empty() && variant.size() <= 128 && variant[0] != '.' &&
                     std::all_of(variant.begin(), variant.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                              c == '-' || c == '_' || c == '.';
                     });
  if (!plain) {
    fail("data",
         "'{}' cannot name a variant: expected letters, digits, '-', '_' and '.', not beginning with '.'.",
         variant);
  }
}

void check_counts(const SplitCounts& counts) {
  constexpr int64_t kMost = 100'000'000;
  for (const int64_t n : {counts.train, counts.val, counts.test}) {
    if (n < 1 || n > kMost)
      fail("data", "{} examples were asked for in a split, expected 1 to {}.", n, kMost);
  }
}

// Rewrites where the values came from: the user typed --option, not --set.
void set_origin(ConfigTree& tree, const std::string& origin) {
  tree.origin = origin;
  for (auto& [key, child] : tree.children) set_origin(child, origin);
}

struct Recipe {
  std::string origin, source;  // made or imported, and from what
  uint64_t seed = 0;
  Json options;
};

Json manifest_head(const Task& task, const DataFolder& folder, const Recipe& recipe) {
  return {{"task", folder.task},     {"version", task.info().version}, {"variant", folder.variant},
          {"origin", recipe.origin}, {"source", recipe.source},        {"options", recipe.options},
          {"seed", recipe.seed},     {"splits", Json::object()}};
}

DatasetInfo common_info(const TaskInfo& task, const DataFolder& folder, const Recipe& recipe) {
  DatasetInfo info;
  info.task = folder.task;
  info.version = task.version;
  info.variant = folder.variant;
  info.options = recipe.options.dump();
  info.source = recipe.source;
  info.seed = recipe.seed;
  info.vocab_size = task.vocab_size;
  info.num_classes = task.num_classes;
  info.max_length = task.max_length;
  info.pad_id = task.pad_id;
  return info;
}

Padding padding_of(const TaskInfo& task) { return task.padding_inside ? Padding::kInside : Padding::kNone; }

// One variant's place on disk while it is being written. In the task's folder:
//
//   .VARIANT.lock      held while a process works on it
//   .VARIANT.partial   the splits so far, removed whatever happens
//   .VARIANT.resume    what a maker leaves for the next attempt (DataSink::lasting_scratch)
class DataWriter : public DataSink {
 public:
  explicit DataWriter(DataFolder folder) : folder_(std::move(folder)) {
    const fs::path parent = folder_.root / folder_.task;
    std::error_code code;
    fs::create_directories(parent, code);
    if (code) fail("data", "{}: cannot make the folder: {}.", parent.string(), code.message());
    partial_ = parent / fmt::format(".{}.partial", folder_.variant);
    resume_ = parent / fmt::format(".{}.resume", folder_.variant);
    lock_.emplace(parent / fmt::format(".{}.lock", folder_.variant), "data",
                  fmt::format("another process is making {}. Wait for it, or choose another --variant.",
                              folder_.path().string()));
  }
  ~DataWriter() override {
    splits_.clear();
    remove(partial_);
  }

  // Only a data set, whole or half-made, may be replaced; anything else in its place belongs to somebody.
  void check_target(bool force) const {
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(folder_.path(), code)) {
      const std::string name = entry.path().filename().string();
      if (name.find(".safetensors") == name.npos && name.find("manifest.json") == name.npos) {
        fail("data",
             "{} holds '{}', which is not part of a data set. Choose another --variant or move it away.",
             folder_.path().string(), name);
      }
    }
    if (fs::exists(folder_.path(), code) && !fs::is_directory(folder_.path(), code)) {
      fail("data", "{} is not a folder. Choose another --variant or move it away.", folder_.path().string());
    }
    if (folder_.complete() && !force) {
      fail("data", "{} holds other data already. Add --force to overwrite it, or choose another --variant.",
           folder_.path().string());
    }
  }

  // `recipe` decides whether a lasting scratch folder of an earlier attempt fits this one.
  void begin(const DatasetInfo& common, Padding padding, Json recipe) {
    remove(partial_);
    recipe_ = std::move(recipe);
    for (const char* split : kSplits) {
      DatasetInfo info = common;
      info.split = split;
      const fs::path file = partial_ / fmt::format("{}.safetensors", split);
      splits_.push_back(std::make_unique<SplitWriter>(file, info, padding));
      infos_.push_back(std::move(info));
    }
  }

  void add(size_t split, const Tokens& tokens, int64_t label) override { splits_[split]->add(tokens, label); }
  void add(size_t split, const Tokens& first, const Tokens& second, int64_t label) override {
    splits_[split]->add(first, second, label);
  }
  fs::path scratch() override { return made_folder(partial_ / "scratch"); }
  fs::path lasting_scratch() override {
    const fs::path note = resume_ / "recipe.json";
    std::error_code code;
    if (!fs::exists(note, code) || read_text(note) != recipe_.dump()) {
      remove(resume_);
      made_folder(resume_);
      write_text(note, recipe_.dump());
    }
    return resume_;
  }

  void finish(Json manifest, const Json& notes) {
    for (size_t s = 0; s < splits_.size(); ++s) {
      Json& entry = manifest["splits"][kSplits[s]];
      entry["examples"] = splits_[s]->size();
      entry["tokens"] = splits_[s]->tokens();
      infos_[s].sha256 = splits_[s]->commit();
      splits_[s].reset();
      for (const auto& [key, value] : to_metadata(infos_[s])) entry[key] = value;
      if (interrupted()) throw Interrupted("writing the data was interrupted; nothing was left behind");
    }
    manifest["notes"] = notes;
    remove(partial_ / "scratch");
    write_text(partial_ / "manifest.json", manifest.dump(2) + "\n");
    replace_directory(partial_, folder_.path());
    remove(resume_);
  }

 private:
  static void remove(const fs::path& folder) {
    std::error_code code;
    fs::remove_all(folder, code);
  }
  static const fs::path& made_folder(const fs::path& folder) {
    std::error_code code;
    fs::create_directories(folder, code);
    if (code) fail("data", "{}: cannot make the folder: {}.", folder.string(), code.message());
    return folder;
  }

  DataFolder folder_;
  fs::path partial_, resume_;
  std::optional<FileLock> lock_;
  Json recipe_;
  std::vector<std::unique_ptr<SplitWriter>> splits_;
  std::vector<DatasetInfo> infos_;
};

// Whether making again would give the bits that are there.
bool already_made(const Task& task, const DataFolder& folder, const Recipe& recipe,
                  const SplitCounts& counts) {
  if (!folder.complete()) return false;
  const Json manifest = read_manifest(folder);
  const Json head = manifest_head(task, folder, recipe);
  for (const auto& [key, value] : head.items()) {
    if (key != "splits" && (!manifest.contains(key) || manifest.at(key) != value)) return false;
  }
  const int64_t wanted[] = {counts.train, counts.val, counts.test};
  for (size_t s = 0; s < std::size(kSplits); ++s) {
    if (folder.open(kSplits[s]).size() != wanted[s]) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<TaskOptions> read_options(const Task& task, std::string_view size,
                                          const std::vector<std::string>& assignments) {
  check_size(size);
  const std::string name(task.name());
  ConfigTree tree;
  for (const std::string& assignment : assignments) {
    if (assignment.find('=') == assignment.npos) {
      fail("data", "--option {}: expected KEY=VALUE. 'lra tasks {}' lists the options.", assignment, name);
    }
    ConfigTree one = parse_assignment(assignment);
    set_origin(one, fmt::format("--option {}", assignment));
    const ConfigTree* inner = one.find(name);
    overlay(tree, inner && inner->is_section ? *inner : one);
  }
  auto options = task.options(size);
  ConfigReader reader(tree, name);
  options->visit(reader);
  reader.finish();
  return options;
}

Json options_json(TaskOptions& options) {
  Json json = Json::object();
  for (const FieldInfo& field : describe_fields([&](Fields& f) { options.visit(f); })) {
    const bool literal = field.type == "integer" || field.type == "number" || field.type == "flag";
    json[field.key] = literal ? Json::parse(field.value) : Json(field.value);
  }
  return json;
}

std::string derive_variant(const Task& task, const MakeRequest& request) {
  std::vector<std::string> parts;
  if (request.size != "full") parts.push_back(request.size);
  const Json defaults = options_json(*task.options(request.size));
  const Json chosen = options_json(*read_options(task, request.size, request.options));
  for (const auto& [key, value] : chosen.items()) {
    if (value != defaults.at(key)) {
      parts.push_back(fmt::format("{}-{}", key, value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
  if (request.counts && *request.counts != task.counts(request.size)) {
    parts.push_back(
        fmt::format("n{}-{}-{}", request.counts->train, request.counts->val, request.counts->test));
  }
  if (request.seed != 0) parts.push_back(fmt::format("seed{}", request.seed));
  std::string name;
  for (const std::string& part : parts) name += (name.empty() ? "" : "-") + part;
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.'; }, '-');
  return name.empty() ? "default" : name;
}

namespace {

// Of "max_length-1000-seed3" takes KEY-VALUE if it begins with that; VALUE ends where a dash does not belong
// to it.
std::optional<std::string> take(std::string_view& rest, std::string_view key) {
  if (!rest.starts_with(key)) return std::nullopt;
  const size_t end = std::min(rest.find('-', key.size()), rest.size());
  std::string value(rest.substr(key.size(), end - key.size()));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return value;
}

std::string command_for(const std::string& name, const std::string& variant) {
  const auto names = Registry<Task>::instance().names();
  if (std::find(names.begin(), names.end(), name) == names.end()) return {};
  const Task& task = find_task(name);
  const bool imported = variant == "imported";
  const auto request = request_of_variant(task, variant);
  if (!request) return {};
  const bool made = task.can_make(request->size) && !imported;
  std::string command = fmt::format("lra data {} {}{}", made ? "make" : "import", name, made ? "" : " FROM");
  if (request->size != "full") command += " --size " + request->size;
  for (const std::string& option : request->options) command += " --option " + option;
  if (const auto& n = request->counts) command += fmt::format(" --count {},{},{}", n->train, n->val, n->test);
  if (request->seed != 0) command += fmt::format(" --seed {}", request->seed);
  return command;
}

[[maybe_unused]] const bool registered = (command_for_data = command_for, true);

}  // namespace

std::optional<MakeRequest> request_of_variant(const Task& task, const std::string& variant) {
  MakeRequest request;
  if (variant == "imported") return request;
  std::string_view rest = variant;
  if (rest == "default") rest = "";
  if (rest == "tiny" || rest.starts_with("tiny-")) {
    request.size = "tiny";
    rest.remove_prefix(std::min<size_t>(5, rest.size()));
  }
  const auto fields = describe_fields([&](Fields& f) { task.options(request.size)->visit(f); });
  while (!rest.empty()) {
    const std::string_view before = rest;
    for (const FieldInfo& field : fields) {
      if (const auto value = take(rest, field.key + "-")) request.options.push_back(field.key + "=" + *value);
    }
    const std::string numbers(rest);
    int64_t train = 0, val = 0, test = 0, seed = 0;
    int used = 0;
    if (std::sscanf(numbers.c_str(), "n%ld-%ld-%ld%n", &train, &val, &test, &used) == 3) {
      request.counts = {train, val, test};
      rest.remove_prefix(std::min(rest.size(), static_cast<size_t>(used) + 1));
    } else if (std::sscanf(numbers.c_str(), "seed%ld%n", &seed, &used) == 1) {
      request.seed = static_cast<uint64_t>(seed);
      rest.remove_prefix(std::min(rest.size(), static_cast<size_t>(used) + 1));
    }
    if (rest.size() == before.size()) return std::nullopt;
  }
  try {
    if (derive_variant(task, request) == variant) return request;
  } catch (const Error&) {  // no such value
  }
  return std::nullopt;
}

DataFolder make_data(const Task& task, const fs::path& root, const MakeRequest& request) {
  check_size(request.size);
  if (!task.can_make(request.size)) {
    fail(task.name(),
         "this data cannot be made, it has to be imported from what its owners publish: 'lra data import {0} "
         "FROM'{1}. A small made-up set comes from 'lra data make {0} --size tiny'.",
         task.name(), task.download() ? fmt::format(" or 'lra data get {}'", task.name()) : std::string());
  }
  const auto options = read_options(task, request.size, request.options);
  const SplitCounts counts = request.counts.value_or(task.counts(request.size));
  check_counts(counts);
  const std::string derived = derive_variant(task, request);
  DataFolder folder{root, std::string(task.name()), request.variant.empty() ? derived : request.variant};
  check_variant_name(folder.variant);
  if (folder.variant != derived && (folder.variant == "default" || folder.variant == "tiny")) {
    fail("data", "'{}' names {}; with these options choose another --variant, for example '{}'.",
         folder.variant, folder.variant == "tiny" ? "the known small set" : "the benchmark's own data",
         derived);
  }
  const Recipe recipe{"made", fmt::format("lra data make {}", task.name()), request.seed,
                      options_json(*options)};
  if (!request.force && already_made(task, folder, recipe, counts)) {
    info("{} is there already.", folder.path().string());
    return folder;
  }
  DataWriter writer(folder);
  if (!request.force && already_made(task, folder, recipe, counts))
    return folder;  // another process was faster
  writer.check_target(request.force);
  const Json head = manifest_head(task, folder, recipe);
  const TaskInfo info = task.info_for(*options);
  writer.begin(common_info(info, folder, recipe), padding_of(info),
               {{"head", head}, {"counts", {counts.train, counts.val, counts.test}}});
  writer.finish(head, task.make(*options, counts, request.seed, writer));
  return folder;
}

DataFolder import_data(const Task& task, const fs::path& root, const fs::path& from,
                       const MakeRequest& request) {
  const auto options = read_options(task, request.size, request.options);
  // What can also be made is not taken for the made one; where importing is the only way, the import is the
  // benchmark's.
  const std::string derived = task.can_make("full") ? "imported" : derive_variant(task, request);
  DataFolder folder{root, std::string(task.name()), request.variant.empty() ? derived : request.variant};
  check_variant_name(folder.variant);
  if (folder.variant == "tiny" || (folder.variant == "default" && task.can_make("full"))) {
    fail("data", "'{}' names data that 'lra data make {}' makes; choose another --variant.", folder.variant,
         folder.task);
  }
  const Recipe recipe{"imported", from.string(), 0, options_json(*options)};
  DataWriter writer(folder);
  writer.check_target(request.force);
  const Json head = manifest_head(task, folder, recipe);
  const TaskInfo info = task.info_for(*options);
  writer.begin(common_info(info, folder, recipe), padding_of(info), head);
  writer.finish(head, task.import(*options, from, writer));
  return folder;
}

Json read_manifest(const DataFolder& folder) {
  folder.require();
  const std::string where = folder.manifest_path().string();
  Json manifest = read_json(folder.manifest_path());
  if (!manifest.is_object() || !manifest.contains("splits")) {
    fail("data", "{}: not a manifest of this program. Make the data again with --force.", where);
  }
  for (const char* split : kSplits) {
    const Json& splits = manifest.at("splits");
    if (!splits.is_object() || !splits.contains(split))
      fail("data", "{}: the split '{}' is missing.", where, split);
    json_get<int64_t>(splits.at(split), "examples", where);
    json_get<int64_t>(splits.at(split), "tokens", where);
    json_get<std::string>(splits.at(split), "sha256", where);
  }
  return manifest;
}

std::vector<DataFolder> list_data(const fs::path& root) {
  std::vector<DataFolder> found;
  std::error_code code;
  for (const auto& task : fs::directory_iterator(root, code)) {
    for (const auto& variant : fs::directory_iterator(task.path(), code)) {
      DataFolder folder{root, task.path().filename().string(), variant.path().filename().string()};
      if (folder.variant[0] != '.' && folder.complete()) found.push_back(std::move(folder));
    }
  }
  std::sort(found.begin(), found.end(), [](const DataFolder& a, const DataFolder& b) {
    return std::pair(a.task, a.variant) < std::pair(b.task, b.variant);
  });
  return found;
}

}  // namespace lra
