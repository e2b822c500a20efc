#include "train/run_config.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/embedded.h"
#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "models/model.h"
#include "tasks/task.h"

namespace lra {
namespace {

constexpr int64_t kMany = 1'000'000'000;

void overlay_embedded(ConfigTree& tree, const std::string& file) {
  const auto found = embedded_files().find(file);
  if (found != embedded_files().end()) overlay(tree, parse_yaml(found->second, file));
}

std::string leaf_of(const ConfigTree& tree, std::string_view section, std::string_view key) {
  const ConfigTree* at = section.empty() ? &tree : tree.find(section);
  const ConfigTree* leaf = at && at->is_section ? at->find(key) : nullptr;
  return leaf && !leaf->is_section ? leaf->value : "";
}

// A positional argument and a configuration file must not contradict each other.
std::string agreed(const std::string& given, const std::string& configured, const char* what) {
  if (!given.empty() && !configured.empty() && given != configured) {
    fail("config", "the command line says {} '{}', the configuration says '{}'. Leave one of them out.", what,
         given, configured);
  }
  return given.empty() ? configured : given;
}

// Every key of config.yaml, once: read, written, compared and explained from this list.
void visit(RunConfig& c, ModelOptions& options, Fields& f) {
  f.choice("protocol", c.protocol, protocols(),
           "what the numbers may be compared with; names the preset (docs/protocols.md)");
  f.integer("seed", c.seed, 0, INT64_MAX, "decides initial values, the order of examples and dropout");
  f.text("device", c.device, "cpu, cuda or cuda:N; auto: cuda if there is one, else cpu");
  f.choice("dtype", c.dtype, {"auto", "fp32", "tf32", "bf16"},
           "type of the activations; parameters stay fp32; auto: bf16 on cuda, fp32 on cpu");
  f.flag("deterministic", c.deterministic,
         "on a GPU: the same bits in every run, at a price; a CPU gives them anyway");
  f.section("task", [&](Fields& task) {
    task.choice("name", c.task, Registry<Task>::instance().names(), "what is learned (lra tasks)");
    task.text("variant", c.variant, "which of the task's data sets: the folder under DATA/TASK");
  });
  f.section("model", [&](Fields& model) {
    model.choice("name", c.model, Registry<Model>::instance().names(), "what learns it (lra models)");
    c.encoder.visit(model);
  });
  f.section(c.model.c_str(), [&](Fields& own) { options.visit(own); });
  f.section("train", [&](Fields& train) { c.train.visit(train); });
  f.section("published", [&](Fields& published) { c.published.visit(published); });
}

std::unique_ptr<ModelOptions> options_of(const RunConfig& c) {
  auto options = find_model(c.model).options();
  ConfigReader reader(c.model_options, c.model);
  options->visit(reader);
  return options;
}

// Values with their types, sections as objects.
class JsonFields : public Fields {
 public:
  Json json = Json::object();
  void integer(const char* key, int64_t& value, int64_t, int64_t, const char*) override { json[key] = value; }
  void real(const char* key, double& value, double, double, const char*) override { json[key] = value; }
  void flag(const char* key, bool& value, const char*) override { json[key] = value; }
  void text(const char* key, std::string& value, const char*) override { json[key] = value; }
  void choice(const char* key, std::string& value, const Choices&, const char*) override {
    json[key] = value;
  }
  void section(const char* key, const std::function<void(Fields&)>& body, const char*) override {
    JsonFields inner;
    body(inner);
    json[key] = std::move(inner.json);
  }
};

// What cannot move a comparison: another seed is a repetition, and machine, log and memory only change when
// and where the same numbers are made. (Where evaluations stand does: they choose the best checkpoint.)
const std::set<std::string> kFree = {"seed",
                                     "device",
                                     "dtype",
                                     "deterministic",
                                     "train.micro_batches",
                                     "train.eval_batch",
                                     "train.log_every",
                                     "train.checkpoint_every",
                                     "train.device_data_mb",
                                     "published.source"};
// Fused or not, attention gives the same numbers.
bool is_free(const std::string& key) { return kFree.contains(key) || key.ends_with(".attention"); }

RunConfig read(const ConfigTree& tree) {
  RunConfig c;
  c.model = leaf_of(tree, "model", "name");
  auto options = find_model(c.model).options();
  ConfigReader reader(tree);
  visit(c, *options, reader);
  reader.finish();
  ConfigWriter writer;
  options->visit(writer);
  c.model_options = writer.tree;
  c.encoder.check();
  if (c.train.batch % c.train.micro_batches != 0) {
    fail("config", "train.batch {} is not a multiple of train.micro_batches {}.", c.train.batch,
         c.train.micro_batches);
  }
  return c;
}

}  // namespace

void TrainConfig::visit(Fields& f) {
  f.integer("steps", steps, 1, kMany, "updates; the length of the schedule");
  f.integer("stop_after", stop_after, 0, kMany,
            "stop after so many updates with the schedule unchanged (--steps); 0: at `steps`");
  f.integer("batch", batch, 1, 1 << 20, "examples an update");
  f.integer("micro_batches", micro_batches, 1, 1 << 20,
            "parts a batch is computed in, one after the other, to save memory");
  f.choice("shuffle", shuffle, {"examples", "batches"},
           "what an epoch shuffles; batches: their composition stays, as the released code has it on images");
  f.choice("schedule", schedule, {"rsqrt", "cosine", "constant"},
           "learning rate over the run, by the formulas below");
  f.real("learning_rate", learning_rate, 0, 100, "the schedule's constant c, for rsqrt not itself a rate");
  f.integer("warmup", warmup, 0, kMany, "updates over which the rate rises linearly");
  f.real("weight_decay", weight_decay, 0, 100, "decoupled, on every parameter");
  f.real("beta1", beta1, 0, 0.9999999, "decay of the first moment");
  f.real("beta2", beta2, 0, 0.9999999, "decay of the second moment");
  f.real("epsilon", epsilon, 0, 1, "added outside the root");
  f.real("clip", clip, 0, 1e9, "largest norm of all gradients together; 0: none");
  f.integer("eval_every", eval_every, 1, kMany, "updates between evaluations on the validation split");
  f.integer("eval_batch", eval_batch, 1, 1 << 20, "examples a batch in evaluation");
  f.integer("log_every", log_every, 1, kMany, "updates between lines of metrics on the training split");
  f.integer("checkpoint_every", checkpoint_every, 1, kMany, "updates between checkpoints");
  f.integer("device_data_mb", device_data_mb, 0, 1 << 24,
            "on a GPU: memory granted to the training data, in MiB; a larger set is streamed from the host");
  f.integer("patience", patience, 0, kMany, "evaluations without improvement before an early stop; 0: never");
}

void PublishedConfig::visit(Fields& f) {
  f.real("value", value, 0, 100, "published test accuracy in percent; 0: none");
  f.text("source", source, "where it was published");
}

ConfigTree RunConfig::tree() {
  ConfigWriter writer;
  visit(*this, *options_of(*this), writer);
  if (published.value == 0) writer.tree.children.pop_back();
  return writer.tree;
}

Json RunConfig::json() {
  JsonFields fields;
  visit(*this, *options_of(*this), fields);
  if (published.value == 0) fields.json.erase("published");
  return fields.json;
}

Departures departures(RunConfig config) {
  const auto known = protocols_of(config.task);
  if (std::find(known.begin(), known.end(), config.protocol) == known.end()) return {};
  ConfigRequest request;
  request.model = config.model, request.task = config.task, request.protocol = config.protocol;
  RunConfig preset = resolve_config(request);
  // Beside a run that was cut short stands how far it goes; another schedule is not said twice.
  const bool cut = config.train.last_step() < config.train.steps;
  for (RunConfig* c : {&preset, &config}) c->train.stop_after = cut ? c->train.last_step() : 0;
  const Json theirs = preset.json().flatten(), ours = config.json().flatten();
  Departures found;
  for (const auto& [pointer, value] : ours.items()) {
    std::string key = pointer.substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    const Json before = theirs.value(pointer, Json());
    if (before != value && !is_free(key)) found.push_back({key, before, value});
  }
  return found;
}

std::vector<FieldInfo> config_fields(const std::string& model) {
  RunConfig config;
  config.model = model;
  const auto options = find_model(model).options();
  auto fields = describe_fields([&](Fields& f) { visit(config, *options, f); });
  for (FieldInfo& field : fields) {
    if (field.key == "model.name" || field.key == "task.name") field.value.clear();  // these must be given
  }
  return fields;
}

std::vector<std::string> protocols() { return {"lra", "lra-code", "scratch", "pretrain", "open", "tiny"}; }

std::vector<std::string> protocols_of(std::string_view task) {
  std::vector<std::string> known;
  for (const auto& protocol : protocols()) {
    if (embedded_files().contains(fmt::format("configs/{}/{}.yaml", protocol, task)))
      known.push_back(protocol);
  }
  return known;
}

RunConfig resolve_config(const ConfigRequest& request) {
  ConfigTree own;  // --config and --set
  if (!request.config_file.empty())
    own = parse_yaml(read_text(request.config_file, 1 << 20), request.config_file);
  for (const auto& assignment : request.set) overlay(own, parse_assignment(assignment));
  const std::string model = agreed(request.model, leaf_of(own, "model", "name"), "model");
  const std::string task = agreed(request.task, leaf_of(own, "task", "name"), "task");
  if (model.empty() || task.empty()) {
    fail("config", "which {}? Say for example: lra train transformer listops.",
         model.empty() ? "model" : "task");
  }
  find_model(model);
  find_task(task);
  std::string protocol = request.protocol.value_or(leaf_of(own, "", "protocol"));
  if (protocol.empty()) protocol = "lra";
  const auto all = protocols();
  if (std::find(all.begin(), all.end(), protocol) == all.end()) {
    fail("config", "there is no protocol '{}'. {}", protocol, suggestion(protocol, all));
  }
  const auto known = protocols_of(task);
  if (protocol != "open" && request.config_file.empty() &&
      std::find(known.begin(), known.end(), protocol) == known.end()) {
    fail("config",
         "protocol '{}' has no preset for task '{}'. It has: {}; or use --protocol open with sizes of your "
         "own.",
         protocol, task, fmt::join(known, ", "));
  }

  ConfigTree tree;
  overlay_embedded(tree, fmt::format("configs/{}/{}.yaml", protocol, task));
  overlay_embedded(tree, fmt::format("configs/{}/{}/{}.yaml", protocol, task, model));
  overlay(tree, own);
  const auto put = [&](const std::string& key, const std::string& value) {
    overlay(tree, parse_assignment(key + "=" + value));
  };
  put("protocol", protocol);
  put("model.name", model);
  put("task.name", task);
  if (request.seed) put("seed", std::to_string(*request.seed));
  if (request.steps) put("train.stop_after", std::to_string(*request.steps));
  if (!request.device.empty()) put("device", request.device);
  if (!request.dtype.empty()) put("dtype", request.dtype);
  if (request.deterministic) put("deterministic", "true");
  return read(tree);
}

RunConfig read_run_config(const std::string& yaml, const std::string& where) {
  return read(parse_yaml(yaml, where));
}

}  // namespace lra
