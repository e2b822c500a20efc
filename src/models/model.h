// A model: how one block mixes positions. Everything around it (embedding, positions, pooling, head) is the
// shared encoder.
//
// One file per model registers itself (docs/add-a-model.md):
//
//   const Registered<Model> transformer(std::make_unique<Transformer>(), LRA_HERE);
//
// A model knows no task, no optimiser and no files.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.h"
#include "nn/encoder.h"

namespace lra {

struct ModelInfo {
  std::string name;   // "transformer"
  std::string title;  // "Transformer"
  std::string paper;
  std::string formula;         // plain text
  std::string cost;            // time and memory of the mixer in L
  bool causal = false;         // has a causal form
  bool keeps_padding = false;  // has a form with padding in its rows (EncoderConfig::padding)
  std::string differences;     // from the paper and from the Long Range Arena's code
  bool packed = true;          // takes rows end to end; else they are padded to the longest of the batch
  bool capturable = true;      // its step can be recorded as a CUDA graph (no host read in it)
};

// The model's own options, a section of the configuration named after it.
class ModelOptions {
 public:
  virtual ~ModelOptions() = default;
  virtual void visit(Fields&) {}
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  std::string_view name() const { return info().name; }
  virtual std::unique_ptr<ModelOptions> options() const { return std::make_unique<ModelOptions>(); }
  // For tests: options under which a row of a few dozen positions has all that a long one has.
  virtual std::unique_ptr<ModelOptions> small_options() const { return options(); }
  virtual std::shared_ptr<Block> block(const EncoderConfig& config, const ModelOptions& options,
                                       int64_t index) const = 0;
  // Parameters of one block by formula (spec of the arena), to hold the code against.
  virtual int64_t block_parameters(const EncoderConfig& config, const ModelOptions& options) const = 0;
};

Model& find_model(std::string_view name);

// The whole encoder, initialised from `seed`. An error where the configuration asks for what the model has
// not.
std::shared_ptr<Encoder> make_encoder(const Model& model, const EncoderConfig& config,
                                      const ModelOptions& options, uint64_t seed);

// Parameters of everything around the blocks by formula.
int64_t shell_parameters(const EncoderConfig& config);
inline int64_t feed_forward_parameters(const EncoderConfig& c) {  // with the two norms of a standard block
  return 4 * c.width + 2 * c.width * c.ff_width + c.ff_width + c.width;
}

}  // namespace lra
