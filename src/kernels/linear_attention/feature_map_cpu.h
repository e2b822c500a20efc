// The feature maps of linear_attention.h on blocks of positions, forward and backward.
#pragma once
#include <cstdint>

namespace lra {

template <class T>
struct FeatureParameters {
  int map;              // FeatureMap
  int64_t count;        // M
  const T* projection;  // softmax: [M, P], times c
  T half_square;        // softmax: c²/2
  T epsilon;            // of the denominator
};

// A block of positions: x of width P, `stride` apart; phi [rows, M], side by side.
template <class T>
struct FeatureBlock {
  const T* x;
  int64_t rows, width, stride;
  T* phi;
};

// φ(k). Softmax: `largest` [M] is raised to the block's exponents first (it starts at −∞), and `factor` [M]
// says by what sums over earlier blocks must be multiplied; without `factor` it is taken as it is. Other maps
// look at neither.
template <class T>
void key_features_cpu(const FeatureParameters<T>& p, const FeatureBlock<T>& b, T* largest, T* factor);
// φ(q), against keys whose exponents `largest` were taken out.
template <class T>
void query_features_cpu(const FeatureParameters<T>& p, const FeatureBlock<T>& b, const T* largest);

// d_phi → d_x, `stride` apart like x; d_phi is overwritten.
template <class T>
void key_features_backward_cpu(const FeatureParameters<T>& p, const FeatureBlock<T>& b, T* d_phi, T* d_x);
template <class T>
void query_features_backward_cpu(const FeatureParameters<T>& p, const FeatureBlock<T>& b, T* d_phi, T* d_x);

}  // namespace lra
