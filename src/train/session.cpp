#include "train/session.h"

#include "base/error.h"
#include "models/model.h"
#include "tasks/task.h"
#include "train/memory.h"
#include "train/trainer.h"

namespace lra {
namespace {

std::unique_ptr<ModelOptions> read_options(const Model& model, const ConfigTree& tree) {
  auto options = model.options();
  ConfigReader reader(tree, std::string(model.name()));
  options->visit(reader);
  reader.finish();
  return options;
}

std::shared_ptr<Encoder> build(const RunConfig& config) {
  const Model& model = find_model(config.model);
  return make_encoder(model, config.encoder, *read_options(model, config.model_options),
                      static_cast<uint64_t>(config.seed));
}

torch::Device resolve_device(RunConfig& config) {
  const torch::Device device = parse_device(config.device == "auto" ? "" : config.device);
  config.device = device.str();
  if (config.dtype == "auto") config.dtype = device.is_cuda() ? "bf16" : "fp32";
  if (config.dtype != "fp32" && device.is_cpu()) {
    fail("config", "dtype {} is for CUDA devices. Use --dtype fp32 on the CPU.", config.dtype);
  }
  set_numerics(config.dtype == "tf32", config.deterministic);
  return device;
}

void describe_data(EncoderConfig& encoder, const DatasetInfo& info, bool two_inputs) {
  encoder.vocab_size = info.vocab_size;
  encoder.num_classes = info.num_classes;
  encoder.max_length = info.max_length;
  encoder.two_inputs = two_inputs;
  encoder.pad_id = info.pad_id;
}

// What the name of a variant says of its data before it is there; nothing for a name of somebody's own.
std::optional<TaskInfo> info_of_variant(const Task& task, const std::string& variant) {
  const auto request = request_of_variant(task, variant);
  if (!request) return std::nullopt;
  return task.info_for(*lra::read_options(task, request->size, request->options));
}

}  // namespace

Session::Session(const RunConfig& configuration, const fs::path& data)
    : config(configuration),
      device(resolve_device(config)),
      folder{data, configuration.task, configuration.variant} {
  const Dataset train = folder.open("train");
  describe_data(config.encoder, train.info(), train.has_second());
  model = build(config);
  model->set_compute_type(config.dtype == "bf16" ? torch::kBFloat16 : torch::kFloat);
}

Dataset Session::open(std::string_view split) const {
  Dataset data = folder.open(split);
  const DatasetInfo& i = data.info();
  const EncoderConfig& e = config.encoder;
  if (i.vocab_size != e.vocab_size || i.num_classes != e.num_classes || i.max_length > e.max_length ||
      data.has_second() != e.two_inputs) {
    fail("data",
         "{}: declares {} token ids, {} classes and length {}, the training split {}, {} and {}. Make the "
         "data again.",
         data.path().string(), i.vocab_size, i.num_classes, i.max_length, e.vocab_size, e.num_classes,
         e.max_length);
  }
  data.check_contents();
  return data;
}

Json describe_run(RunConfig& config, const fs::path& data) {
  const DataFolder folder{data, config.task, config.variant};
  EncoderConfig& e = config.encoder;
  Json out;
  out["data"] = nullptr;
  std::string sizes = "data";
  if (fs::exists(folder.split_path("train"))) {
    const Dataset train = folder.open("train");
    describe_data(e, train.info(), train.has_second());
    out["data"] = {
        {"path", folder.path().string()}, {"sha256", train.info().sha256}, {"train_examples", train.size()}};
  } else {
    const Task& task = find_task(config.task);
    const std::optional<TaskInfo> named = info_of_variant(task, config.variant);
    const TaskInfo info = named.value_or(task.info());
    sizes = named ? "variant" : "task";
    e.vocab_size = info.vocab_size;
    e.num_classes = info.num_classes;
    e.max_length = info.max_length;
    e.two_inputs = info.two_inputs;
    e.pad_id = info.pad_id;
  }
  resolve_device(config);
  const Model& model = find_model(config.model);
  const int64_t parameters =
      shell_parameters(e) + e.layers * model.block_parameters(e, *read_options(model, config.model_options));
  out["sizes_from"] = sizes;
  out["max_length"] = e.max_length;
  out["config"] = config.json();
  out["departures"] = departures_json(departures(config));
  out["parameters"] = parameters;
  const MemoryEstimate memory = estimate_memory(config, parameters);
  out["estimated_memory_bytes"] = {{"state", memory.state},
                                   {"activations", memory.activations},
                                   {"total", memory.state + memory.activations}};
  return out;
}

}  // namespace lra
