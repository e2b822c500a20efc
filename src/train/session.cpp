#include "train/session.h"

#include "base/error.h"
#include "models/model.h"
#include "tasks/task.h"
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

int64_t state_bytes(const RunConfig& config, int64_t parameters) {
  const bool copies = config.dtype == "bf16", on_device = config.device != "cpu";
  return parameters * (16 + (copies ? 2 : 0) + (on_device ? 12 : 0));
}

int64_t activation_bytes(const RunConfig& config, int64_t positions) {
  return config.encoder.activation_bytes(positions, config.dtype == "bf16" ? 2 : 4);
}

Json describe_run(RunConfig config, const fs::path& data) {
  const DataFolder folder{data, config.task, config.variant};
  Json out;
  if (fs::exists(folder.split_path("train"))) {
    const Dataset train = folder.open("train");
    describe_data(config.encoder, train.info(), train.has_second());
    out["data"] = {
        {"path", folder.path().string()}, {"sha256", train.info().sha256}, {"train_examples", train.size()}};
  } else {
    const TaskInfo& info = find_task(config.task).info();
    config.encoder.vocab_size = info.vocab_size;
    config.encoder.num_classes = info.num_classes;
    config.encoder.max_length = info.max_length;
    config.encoder.two_inputs = info.two_inputs;
    config.encoder.pad_id = info.pad_id;
    out["data"] = nullptr;
  }
  resolve_device(config);
  const EncoderConfig& e = config.encoder;
  const Model& model = find_model(config.model);
  const int64_t parameters =
      shell_parameters(e) + e.layers * model.block_parameters(e, *read_options(model, config.model_options));
  const int64_t micro_batches = config.train.micro_batches;
  const int64_t rows = (config.train.batch + micro_batches - 1) / micro_batches * (e.two_inputs ? 2 : 1);
  const int64_t activations = activation_bytes(config, rows * e.positions_count());
  const int64_t state = state_bytes(config, parameters);
  out["config"] = to_yaml(config.tree());
  out["parameters"] = parameters;
  out["estimated_memory_bytes"] = {
      {"state", state}, {"activations", activations}, {"total", state + activations}};
  return out;
}

}  // namespace lra
