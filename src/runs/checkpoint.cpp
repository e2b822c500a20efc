#include "runs/checkpoint.h"

#include "base/error.h"
#include "data/checksum.h"

namespace lra {
namespace {

fs::path checkpoint_path(const fs::path& run, std::string_view name) { return run / "checkpoints" / name; }

constexpr const char *kModel = "model.safetensors", *kOptimizer = "optimizer.safetensors",
                     *kHashes = "sha256";

// Returns the file's hash.
std::string write_tensors(const fs::path& path, const std::vector<NamedTensor>& tensors) {
  SafetensorsWriter writer(path, {{"format", "pt"}});
  for (const auto& [name, tensor] : tensors) writer.add(name, tensor.dtype, tensor.shape, tensor.bytes);
  writer.commit();
  return file_checksum(path, ChecksumKind::kSha256);
}

// With every byte as it was written; checkpoints of versions that kept no hashes are taken as they are.
SafetensorsFile read_tensors(const fs::path& checkpoint, const char* name, const Json& state) {
  const fs::path path = checkpoint / name;
  SafetensorsFile file(path);
  const auto hashes = state.find(kHashes);
  if (hashes == state.end()) return file;
  const std::string where = (checkpoint / "state.json").string();
  if (json_get<std::string>(*hashes, name, where) != file_checksum(path, ChecksumKind::kSha256)) {
    fail(path.string(), "damaged: its SHA-256 is not the one in state.json.");
  }
  return file;
}

// Where RENAME_EXCHANGE is missing, a kill between two renames leaves the old folder beside the empty place.
void recover(const fs::path& path) {
  fs::path old = path;
  old += ".old";
  if (!fs::exists(path) && fs::exists(old)) fs::rename(old, path);
}

Checkpoint opened(const fs::path& path) {
  Json state = read_json(path / "state.json");
  return {path, read_tensors(path, kModel, state), std::move(state)};
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
    Json described = state;
    described[kHashes] = {{kModel, write_tensors(fresh / kModel, model)},
                          {kOptimizer, write_tensors(fresh / kOptimizer, optimizer)}};
    write_text(fresh / "state.json", described.dump(2) + "\n");
    replace_directory(fresh, target);
  } catch (const std::exception& e) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    fail("checkpoint", "{}: not saved; the checkpoint before it is untouched. {}", target.string(), e.what());
  }
}

SafetensorsFile Checkpoint::optimizer() const { return read_tensors(path, kOptimizer, state); }

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
