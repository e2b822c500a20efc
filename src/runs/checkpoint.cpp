#include "runs/checkpoint.h"

#include "base/error.h"

namespace lra {
namespace {

fs::path checkpoint_path(const fs::path& run, std::string_view name) { return run / "checkpoints" / name; }

void write_tensors(const fs::path& path, const std::vector<NamedTensor>& tensors) {
  SafetensorsWriter writer(path, {{"format", "pt"}});
  for (const auto& [name, tensor] : tensors) writer.add(name, tensor.dtype, tensor.shape, tensor.bytes);
  writer.commit();
}

// Where RENAME_EXCHANGE is missing, a kill between two renames leaves the old folder beside the empty place.
void recover(const fs::path& path) {
  fs::path old = path;
  old += ".old";
  if (!fs::exists(path) && fs::exists(old)) fs::rename(old, path);
}

Checkpoint opened(const fs::path& path) {
  return {path, SafetensorsFile(path / "model.safetensors"), read_json(path / "state.json")};
}

}  // namespace

void save_checkpoint(const fs::path& run, std::string_view name, const std::vector<NamedTensor>& model,
                     const std::vector<NamedTensor>& optimizer, const Json& state) {
  const fs::path target = checkpoint_path(run, name);
  fs::path fresh = target;
  fresh += ".new";
  try {
    fs::remove_all(fresh);
    fs::create_directories(fresh);
    write_tensors(fresh / "model.safetensors", model);
    write_tensors(fresh / "optimizer.safetensors", optimizer);
    write_text(fresh / "state.json", state.dump(2) + "\n");
    replace_directory(fresh, target);
  } catch (const std::exception& e) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    fail("checkpoint", "{}: not saved; the checkpoint before it is untouched. {}", target.string(), e.what());
  }
}

bool has_checkpoint(const fs::path& run, std::string_view name) {
  recover(checkpoint_path(run, name));
  return fs::exists(checkpoint_path(run, name) / "state.json");
}

Checkpoint open_checkpoint(const fs::path& run, std::string_view name) {
  const fs::path path = checkpoint_path(run, name);
  if (!has_checkpoint(run, name)) {
    fail("checkpoint", "{}: there is no such checkpoint. A run saves 'last' and 'best' as it goes.",
         path.string());
  }
  try {
    return opened(path);
  } catch (const Error& e) {
    fail("checkpoint", "{} {}", e.what(), checkpoint_advice(run, name));
  }
}

std::string checkpoint_advice(const fs::path& run, std::string_view name) {
  const std::string other = name == "last" ? "best" : "last";
  try {
    const Checkpoint whole = opened(checkpoint_path(run, other));
    whole.optimizer();
    const auto step = json_get<int64_t>(whole.state, "step", other);
    if (name == "last") {
      return fmt::format("checkpoints/best is whole: remove {}, then --resume goes on from it (step {}).",
                         checkpoint_path(run, name).string(), step);
    }
    return fmt::format(
        "checkpoints/last (step {}) is whole and can be tested: 'lra eval {} --checkpoint last'. To train "
        "on, restore checkpoints/best or start again with --force.",
        step, run.string());
  } catch (const Error&) {
    return fmt::format(
        "checkpoints/{} cannot be read either: restore one of them, or start again with --force.", other);
  }
}

}  // namespace lra
