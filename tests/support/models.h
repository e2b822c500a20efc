// Small models and batches for tests.
#pragma once
#include "models/model.h"

namespace lra {

inline EncoderConfig small_config() {
  EncoderConfig c;
  c.layers = 2, c.width = 16, c.heads = 2, c.qkv_width = 16, c.ff_width = 32;
  c.dropout = 0.2, c.attention_dropout = 0.1;
  c.vocab_size = 17, c.num_classes = 10, c.max_length = 64;
  return c;
}

inline std::shared_ptr<Encoder> small_encoder(const Model& model, const EncoderConfig& config,
                                              torch::Dtype type = torch::kFloat, uint64_t seed = 1) {
  auto encoder = make_encoder(model, config, *model.options(), seed);
  encoder->to(type);
  encoder->set_compute_type(type);
  return encoder;
}

// Random tokens in rows of these lengths; CLS positions as `small_config` wants them.
inline Batch random_batch(const std::vector<int32_t>& lengths,
                          const LayoutOptions& layout = {true, true, 17}) {
  torch::manual_seed(11);
  Batch batch;
  batch.rows = static_cast<int64_t>(lengths.size());
  const int32_t lead = layout.cls ? 1 : 0;
  std::vector<int32_t> positions;
  for (const int32_t n : lengths) positions.push_back(n + lead);
  batch.input.rows = lay_out(positions, layout.packed);
  batch.input.tokens =
      torch::full({batch.input.rows.positions}, 3, torch::kInt);  // whatever stands in the padding
  const auto* offsets = batch.input.rows.offsets.const_data_ptr<int32_t>();
  for (size_t b = 0; b < lengths.size(); ++b) {
    Tensor row = batch.input.tokens.narrow(0, offsets[b], positions[b]);
    if (layout.cls) row[0] = layout.cls_id;
    row.narrow(0, lead, lengths[b]).copy_(torch::randint(1, 17, {lengths[b]}, torch::kInt));
    batch.real_tokens += lengths[b];
  }
  batch.labels = torch::randint(0, 10, {batch.rows}, torch::kLong);
  return batch;
}

// 1 at positions that belong to a row: [T, 1].
inline Tensor valid_positions(const Rows& rows) {
  Tensor valid = torch::zeros({rows.positions, 1}, torch::kDouble);
  for (int64_t b = 0; b < rows.count; ++b) {
    valid.narrow(0, rows.offsets[b].item<int64_t>(), rows.lengths[b].item<int64_t>()).fill_(1);
  }
  return valid;
}

}  // namespace lra
