// The base of mixers with heads: the products around whatever happens between positions.
//
//   q, k, v = x W_q, x W_k, x W_v      [T, H, P] each, no bias
//   y = mixed W_o                      [T, H·P] → [T, D]
//
// Parameters are q.weight, k.weight, v.weight and o.weight, Xavier-uniform, as in the Long Range Arena's
// code.
#pragma once
#include "nn/encoder.h"

namespace lra {

class HeadMixer : public Mixer {
 protected:
  // Without `keys` there is no W_q and no W_k.
  explicit HeadMixer(const EncoderConfig& c, bool keys = true);

  Tensor queries_keys_values(const Tensor& x, const Forward& f) const;  // [T, 3, H, P], one product
  Tensor keys_values(const Tensor& x, const Forward& f) const;          // [T, 2, H, P]
  Tensor queries(const Tensor& x, const Forward& f) const;              // [T, H, P]
  Tensor values(const Tensor& x, const Forward& f) const;               // [T, H, P]
  Tensor output(const Tensor& mixed, const Forward& f) const;           // [T, H, P] → [T, D]
  // The same by plain products, in the type of x.
  Tensor queries_keys_values_reference(const Tensor& x) const;
  Tensor values_reference(const Tensor& x) const;
  Tensor output_reference(const Tensor& mixed) const;

  int64_t heads_, width_;  // H, P

 private:
  std::shared_ptr<Linear> q_, k_, v_, o_;
};

}  // namespace lra
