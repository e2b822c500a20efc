// What the mixers with queries, keys and values share: four projections without bias, and a core between
// them.
//
//   q, k, v = x W_q, x W_k, x W_v            [T, H, P] each
//   y = core(q, k, v) W_o
//
// A model says what the core is, twice: `mix` over all rows as fast as it can, `mix_reference` for one row
// from the definition.
#pragma once
#include "nn/encoder.h"

namespace lra {

class QkvMixer : public Mixer {
 public:
  QkvMixer(const EncoderConfig& config, int64_t index);
  Tensor forward(const Tensor& x, const Forward& f) const override;
  Tensor forward_first(const Tensor& x, const Forward& f) const override;
  Tensor reference(const Tensor& x, const Forward& f) const override;

 protected:
  // One row of a batch in `mix_reference`.
  struct Row {
    Tensor q, k, v;      // [H, n, P]
    int64_t number = 0;  // in the whole batch: what dropout draws by
    int64_t length = 0;  // n
    Tensor valid = {};   // [n], Forward::valid of the row
  };

  virtual Tensor mix(const Tensor& qkv, const Forward& f) const = 0;         // [T, 3, H, P] → [T, H, P]
  virtual Tensor mix_reference(const Row& row, const Forward& f) const = 0;  // [H, n, P]
  Tensor core(const Tensor& x, const Forward& f) const;                      // [T, H·P], before W_o
  Tensor core_reference(const Tensor& x, const Forward& f) const;            // the same
  // How far the first position of a row sees, itself included, by weights that dropout names by position:
  // 0: the whole row; −1: it is computed with all others.
  virtual int64_t first_reach() const { return -1; }

  Dropout weight_dropout(const Forward& f) const { return f.dropout(dropout_, site_); }

  std::shared_ptr<Linear> q_, k_, v_, o_;
  int64_t heads_;
  double dropout_;
  uint64_t site_;
};

std::shared_ptr<Linear> projection(int64_t in, int64_t out);  // no bias, Xavier's initial values

// softmax of one query a row, the first, over the first `reach` positions of the row (0: all of them), by
// weights q, k, v: x [T, D] → [B, H·P]
Tensor attend_first(const Tensor& x, const Forward& f, const Linear& q, const Linear& k, const Linear& v,
                    int64_t heads, int64_t reach, const Dropout& dropout);

}  // namespace lra
