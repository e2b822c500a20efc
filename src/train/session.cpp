#include "train/session.h"

#include <ctime>
#include <sys/utsname.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/version.h"
#include "eval/evaluate.h"
#include "models/model.h"
#include "runs/checkpoint.h"
#include "tasks/task.h"
#include "train/flat_state.h"
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
  if (config.dtype == "bf16" && device.is_cpu()) {
    fail("config", "dtype bf16 is for CUDA devices. Use --dtype fp32 on the CPU.");
  }
  return device;
}

void describe_data(EncoderConfig& encoder, const DatasetInfo& info, bool two_inputs) {
  encoder.vocab_size = info.vocab_size;
  encoder.num_classes = info.num_classes;
  encoder.max_length = info.max_length;
  encoder.two_inputs = two_inputs;
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

Json environment(const std::string& device, const std::vector<std::string>& command) {
  utsname host = {};
  uname(&host);
  char started[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(started, sizeof(started), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return {{"program", program_version()},
          {"commit", program_commit()},
          {"build", build_type()},
          {"torch", TORCH_VERSION},
          {"compiler", __VERSION__},
          {"device", device},
          {"device_name", device_name(parse_device(device))},
          {"host", host.nodename},
          {"system", fmt::format("{} {}", host.sysname, host.release)},
          {"threads", at::get_num_threads()},
          {"command", command},
          {"started", started}};
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
    out["data"] = nullptr;
  }
  resolve_device(config);
  const EncoderConfig& e = config.encoder;
  const Model& model = find_model(config.model);
  const int64_t parameters =
      shell_parameters(e) + e.layers * model.block_parameters(e, *read_options(model, config.model_options));
  // Saved for the backward pass per position and block: norms, q, k, v, attention output, the residual stream
  // (about 5D + 4Q) and three tensors of the inner width; in bf16 half of that.
  const auto bytes_each = config.dtype == "bf16" ? int64_t{2} : int64_t{4};
  const int64_t rows = (config.train.batch / config.train.micro_batches) * (e.two_inputs ? 2 : 1);
  const int64_t activations =
      rows * e.positions_count() * e.layers * bytes_each * (5 * e.width + 4 * e.qkv_width + 3 * e.ff_width);
  out["config"] = to_yaml(config.tree());
  out["parameters"] = parameters;
  out["estimated_memory_bytes"] = {
      {"state", 16 * parameters}, {"activations", activations}, {"total", 16 * parameters + activations}};
  return out;
}

Json evaluate_run(const EvalRequest& request) {
  if (!fs::exists(request.run / "config.yaml")) {
    fail("eval", "{}: not a run folder (it holds no config.yaml).", request.run.string());
  }
  RunConfig config = read_run_config(read_text(request.run / "config.yaml", 1 << 20),
                                     (request.run / "config.yaml").string());
  if (!request.dtype.empty()) config.dtype = request.dtype;
  if (!request.device.empty()) {
    config.device = request.device;
    if (request.dtype.empty()) config.dtype = "auto";
  } else if (config.device != "cpu" && !load_cuda().available) {
    config.device = "cpu";  // a run made on a GPU may be looked at anywhere
    if (request.dtype.empty()) config.dtype = "fp32";
  }
  Session session(config, request.data);
  const Dataset data = session.open(request.split);
  const Checkpoint checkpoint = open_checkpoint(request.run, request.checkpoint);
  const std::string trained_on =
      json_get<std::string>(checkpoint.state, "data_sha256", (checkpoint.path / "state.json").string());
  if (const std::string found = session.folder.open("train").info().sha256; found != trained_on) {
    fail("eval", "{}: the run was trained on other data (sha256 {}) than the one in {} ({}).",
         request.run.string(), trained_on, session.folder.path().string(), found);
  }
  FlatState flat(*session.model, session.device, torch::kFloat, [](const std::string&) { return true; });
  flat.load_model(checkpoint.model);

  EvaluateOptions options;
  options.batch = config.train.eval_batch;
  options.device = session.device;
  options.keep_predictions = request.write_predictions;
  options.task = &find_task(config.task);
  Progress progress("evaluating", data.size(), "examples");
  options.progress = [&](int64_t done) { progress.update(done); };
  const Evaluation e = evaluate(*session.model, data, options);

  Json out = {
      {"run", request.run.string()},
      {"split", request.split},
      {"checkpoint", request.checkpoint},
      {"step", json_get<int64_t>(checkpoint.state, "step", (checkpoint.path / "state.json").string())},
      {"examples", e.examples},
      {"correct", e.correct},
      {"accuracy", e.accuracy()},
      {"loss", e.loss},
      {"data_sha256", data.info().sha256},
      {"groups", Json::object()}};
  for (const auto& g : e.groups) out["groups"][g.name] = {{"examples", g.examples}, {"correct", g.correct}};
  if (request.write_predictions) {
    const fs::path path = request.predictions.empty()
                              ? request.run / "predictions" / (request.split + ".jsonl")
                              : request.predictions;
    AtomicFile file(path);
    for (const auto& p : e.predictions) {
      file.write(Json{{"index", p.index},
                      {"label", p.label},
                      {"prediction", p.prediction},
                      {"logits", p.logits},
                      {"checkpoint", request.checkpoint}}
                     .dump() +
                 "\n");
    }
    file.commit();
    out["predictions"] = path.string();
  }
  return out;
}

}  // namespace lra
