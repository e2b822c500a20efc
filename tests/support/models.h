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

// Random tokens in rows of these lengths, padded to the longest.
inline Batch random_batch(const std::vector<int32_t>& lengths, int64_t vocabulary = 17,
                          int64_t classes = 10) {
  torch::manual_seed(11);
  Batch batch;
  batch.rows = static_cast<int64_t>(lengths.size());
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  batch.input.tokens = torch::randint(1, vocabulary, {batch.rows, longest}, torch::kInt);
  batch.input.lengths = torch::tensor(lengths, torch::kInt);
  batch.input.full = std::all_of(lengths.begin(), lengths.end(), [&](int32_t n) { return n == longest; });
  batch.labels = torch::randint(0, classes, {batch.rows}, torch::kLong);
  for (const int32_t n : lengths) batch.real_tokens += n;
  return batch;
}

// 1 at real positions: [B, L, 1].
inline Tensor valid_positions(const Tensor& lengths, int64_t B, int64_t L) {
  if (!lengths.defined()) return torch::ones({B, L, 1}, torch::kDouble);
  return (torch::arange(L).unsqueeze(0) < lengths.unsqueeze(1)).unsqueeze(2).to(torch::kDouble);
}

}  // namespace lra
