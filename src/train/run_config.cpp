#include "train/run_config.h"

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

RunConfig read(const ConfigTree& tree) {
  RunConfig c;
  c.model = leaf_of(tree, "model", "name");
  const Model& model = find_model(c.model);
  auto options = model.options();
  ConfigReader reader(tree);
  reader.choice("protocol", c.protocol, protocols(), "");
  reader.integer("seed", c.seed, 0, INT64_MAX, "");
  reader.text("device", c.device, "");
  reader.choice("dtype", c.dtype, {"auto", "fp32", "tf32", "bf16"}, "");
  reader.flag("deterministic", c.deterministic, "");
  reader.section(
      "task",
      [&](Fields& f) {
        f.choice("name", c.task, Registry<Task>::instance().names(), "");
        f.text("variant", c.variant, "");
      },
      "");
  reader.section(
      "model",
      [&](Fields& f) {
        f.text("name", c.model, "");
        c.encoder.visit(f);
      },
      "");
  const std::string section(model.name());
  reader.section(
      section.c_str(), [&](Fields& f) { options->visit(f); }, "");
  reader.section(
      "train", [&](Fields& f) { c.train.visit(f); }, "");
  reader.section(
      "published", [&](Fields& f) { c.published.visit(f); }, "");
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
            "stop after so many updates with the schedule unchanged; 0: at `steps`");
  f.integer("batch", batch, 1, 1 << 20, "examples an update");
  f.integer("micro_batches", micro_batches, 1, 1 << 20,
            "parts a batch is computed in, one after the other, to save memory");
  f.choice("shuffle", shuffle, {"examples", "batches"},
           "what an epoch shuffles; batches: their composition stays, as the released code has it on images");
  f.choice("schedule", schedule, {"rsqrt", "cosine", "constant"}, "learning-rate schedule");
  f.real("learning_rate", learning_rate, 0, 100, "the schedule's constant c");
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
  writer.text("protocol", protocol, "");
  writer.integer("seed", seed, 0, 0, "");
  writer.text("device", device, "");
  writer.text("dtype", dtype, "");
  writer.flag("deterministic", deterministic, "");
  writer.section(
      "task",
      [&](Fields& f) {
        f.text("name", task, "");
        f.text("variant", variant, "");
      },
      "");
  writer.section(
      "model",
      [&](Fields& f) {
        f.text("name", model, "");
        encoder.visit(f);
      },
      "");
  writer.tree.child(model) = model_options;
  writer.section(
      "train", [&](Fields& f) { train.visit(f); }, "");
  if (published.value > 0)
    writer.section(
        "published", [&](Fields& f) { published.visit(f); }, "");
  return writer.tree;
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
