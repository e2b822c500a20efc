// CPU side of linear_attention.h for one (row, head): see kernels/cpu.h for the rules of such files.
//
// Backward, with g_i = d_out_i / den_i and e_i = −(d_out_i·out_i) / den_i:
//
//   dφ(q_i) = Σ_j (g_i·v_j + e_i) φ(k_j) = S g_i + e_i z
//   dφ(k_j) = Σ_i (g_i·v_j + e_i) φ(q_i) = dS v_j + dz       dS = Σ_i φ(q_i) g_iᵀ,  dz = Σ_i e_i φ(q_i)
//   dv_j    = Σ_i (φ(q_i)·φ(k_j)) g_i    = dSᵀ φ(k_j)
#include "kernels/linear_attention/linear_attention_cpu.h"

#include <algorithm>
#include <limits>

#include "kernels/linear_attention/row_operations_cpu.h"
#include "kernels/vector_math.h"

namespace lra {
namespace {

// Positions a block: not causal, what fills a matrix product; causal, as many as a chunk attends to itself.
constexpr int64_t kBlock = 128, kChunk = 64;

int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }
int64_t chunks(int64_t length) { return (length + kChunk - 1) / kChunk; }

// Sums over keys [M, P] and [M], and the exponents taken out of the features [M]; or their gradients.
template <class T>
struct State {
  T *s, *z, *largest;

  State(T* memory, int64_t M, int64_t P) : s(memory), z(s + padded(M * P)), largest(z + padded(M)) {}
  void clear(int64_t M, int64_t P) const {
    std::fill_n(s, M * P, T(0));
    std::fill_n(z, M, T(0));
    std::fill_n(largest, M, -std::numeric_limits<T>::infinity());
  }
};

template <class T>
struct Scratch {
  T *phi_q, *phi_k, *d_phi;               // [block, M]
  T *g, *e;                               // [block, P], [block]
  T *weights, *gradients;                 // [chunk, chunk]
  T *factor, *state, *d_state, *largest;  // [M]; a State; a State; [chunks, M]

  Scratch(T* at, int64_t M, int64_t P) {
    const auto take = [&](int64_t n) {
      T* here = at;
      at += padded(n);
      return here;
    };
    phi_q = take(kBlock * M), phi_k = take(kBlock * M), d_phi = take(kBlock * M);
    g = take(kBlock * P), e = take(kBlock);
    weights = take(kChunk * kChunk), gradients = take(kChunk * kChunk);
    factor = take(M), state = take(linear_attention_state(M, P)),
    d_state = take(linear_attention_state(M, P));
    largest = at;
  }
};

// One head and its working memory.
template <class T>
struct Work {
  const LinearAttentionHead<T>& h;
  int64_t M, P;
  Scratch<T> at;

  Work(const LinearAttentionHead<T>& head, T* scratch)
      : h(head), M(head.features.count), P(head.width), at(scratch, M, P) {}

  FeatureBlock<T> query_block(int64_t i0, int64_t rows) const {
    return {h.q + i0 * h.q_stride, rows, P, h.q_stride, at.phi_q};
  }
  FeatureBlock<T> key_block(int64_t j0, int64_t rows) const {
    return {h.k + j0 * h.stride, rows, P, h.stride, at.phi_k};
  }

  // φ of a block of keys, with the sums brought to its exponents.
  void keys(int64_t j0, int64_t rows, const State<T>& state) const {
    key_features_cpu(h.features, key_block(j0, rows), state.largest, at.factor);
    if (h.features.projection) scale_rows_cpu(state.s, state.z, at.factor, M, P);
  }
  void add_keys(int64_t j0, int64_t rows, const State<T>& state) const {  // S += φ(k)ᵀ v, z += Σ φ(k)
    gemm<T>(true, false, M, P, rows, T(1), at.phi_k, M, h.v + j0 * h.stride, h.stride, T(1), state.s, P);
    add_columns_cpu(at.phi_k, rows, M, state.z);
  }
  // g and e of a block of queries.
  void output_gradient(int64_t i0, int64_t rows, const T* d_out) const {
    quotient_gradient_cpu(d_out + i0 * h.out_stride, h.out + i0 * h.out_stride, h.out_stride,
                          h.denominator + i0, rows, P, at.g, at.e);
  }
  // d_phi (+)= g Sᵀ + e zᵀ
  void query_gradient(int64_t rows, const State<T>& state, bool add) const {
    gemm<T>(false, true, rows, M, P, T(1), at.g, P, state.s, P, T(add ? 1 : 0), at.d_phi, M);
    add_outer_cpu(at.e, state.z, rows, M, at.d_phi);
  }
  void add_queries(int64_t rows, const State<T>& d) const {  // dS += φ(q)ᵀ g, dz += φ(q)ᵀ e
    gemm<T>(true, false, M, P, rows, T(1), at.phi_q, M, at.g, P, T(1), d.s, P);
    add_weighted_columns_cpu(at.phi_q, at.e, rows, M, d.z);
  }
  // d_phi (+)= v dSᵀ + 1 dzᵀ, and d_v (+)= φ(k) dS
  void key_gradient(int64_t j0, int64_t rows, const State<T>& d, T* d_v, bool add) const {
    gemm<T>(false, true, rows, M, P, T(1), h.v + j0 * h.stride, h.stride, d.s, P, T(add ? 1 : 0), at.d_phi,
            M);
    add_to_rows_cpu(d.z, rows, M, at.d_phi);
    gemm<T>(false, false, rows, P, M, T(1), at.phi_k, M, d.s, P, T(add ? 1 : 0), d_v + j0 * h.stride,
            h.stride);
  }
};

template <class T>
void forward(const Work<T>& w) {
  const auto& h = w.h;
  const State<T> state(h.state, w.M, w.P);
  state.clear(w.M, w.P);
  for (int64_t j0 = 0; j0 < h.length; j0 += kBlock) {
    const int64_t rows = std::min(kBlock, h.length - j0);
    w.keys(j0, rows, state);
    w.add_keys(j0, rows, state);
  }
  for (int64_t i0 = 0; i0 < h.queries; i0 += kBlock) {
    const int64_t rows = std::min(kBlock, h.queries - i0);
    T* out = h.out + i0 * h.out_stride;
    query_features_cpu(h.features, w.query_block(i0, rows), state.largest);
    gemm<T>(false, false, rows, w.P, w.M, T(1), w.at.phi_q, w.M, state.s, w.P, T(0), out, h.out_stride);
    std::fill_n(h.denominator + i0, rows, h.features.epsilon);
    divide_rows_cpu(w.at.phi_q, state.z, rows, w.M, h.denominator + i0, out, h.out_stride, w.P);
  }
}

template <class T>
void backward(const Work<T>& w, const LinearAttentionHeadGradient<T>& d) {
  const auto& h = w.h;
  const State<T> state(h.state, w.M, w.P), d_state(w.at.d_state, w.M, w.P);
  d_state.clear(w.M, w.P);
  for (int64_t i0 = 0; i0 < h.queries; i0 += kBlock) {
    const int64_t rows = std::min(kBlock, h.queries - i0);
    query_features_cpu(h.features, w.query_block(i0, rows), state.largest);
    w.output_gradient(i0, rows, d.d_out);
    w.query_gradient(rows, state, false);
    w.add_queries(rows, d_state);
    query_features_backward_cpu(h.features, w.query_block(i0, rows), w.at.d_phi, d.d_q + i0 * h.q_stride);
  }
  for (int64_t j0 = 0; j0 < h.length; j0 += kBlock) {
    const int64_t rows = std::min(kBlock, h.length - j0);
    key_features_cpu(h.features, w.key_block(j0, rows), state.largest, static_cast<T*>(nullptr));
    w.key_gradient(j0, rows, d_state, d.d_v, false);
    key_features_backward_cpu(h.features, w.key_block(j0, rows), w.at.d_phi, d.d_k + j0 * h.stride);
  }
}

// weights = φ(q) φ(k)ᵀ of a chunk with itself, zero above the diagonal
template <class T>
void own_weights(const Work<T>& w, int64_t rows) {
  gemm<T>(false, true, rows, rows, w.M, T(1), w.at.phi_q, w.M, w.at.phi_k, w.M, T(0), w.at.weights, kChunk);
  for (int64_t i = 0; i < rows; ++i)
    std::fill(w.at.weights + i * kChunk + i + 1, w.at.weights + i * kChunk + rows, T(0));
}

// gradients = g vᵀ + e 1ᵀ of a chunk with itself, zero above the diagonal
template <class T>
void own_gradients(const Work<T>& w, int64_t i0, int64_t rows) {
  gemm<T>(false, true, rows, rows, w.P, T(1), w.at.g, w.P, w.h.v + i0 * w.h.stride, w.h.stride, T(0),
          w.at.gradients, kChunk);
  for (int64_t i = 0; i < rows; ++i) {
    T* row = w.at.gradients + i * kChunk;
    for (int64_t j = 0; j <= i; ++j) row[j] += w.at.e[i];
    std::fill(row + i + 1, row + rows, T(0));
  }
}

template <class T>
void forward_causal(const Work<T>& w) {
  const auto& h = w.h;
  const State<T> state(w.at.state, w.M, w.P);
  state.clear(w.M, w.P);
  for (int64_t i0 = 0; i0 < h.length; i0 += kChunk) {
    const int64_t rows = std::min(kChunk, h.length - i0);
    T* out = h.out + i0 * h.out_stride;
    w.keys(i0, rows, state);
    query_features_cpu(h.features, w.query_block(i0, rows), state.largest);
    own_weights(w, rows);
    gemm<T>(false, false, rows, w.P, w.M, T(1), w.at.phi_q, w.M, state.s, w.P, T(0), out, h.out_stride);
    gemm<T>(false, false, rows, w.P, rows, T(1), w.at.weights, kChunk, h.v + i0 * h.stride, h.stride, T(1),
            out, h.out_stride);
    for (int64_t i = 0; i < rows; ++i) {
      T sum = h.features.epsilon;
      for (int64_t j = 0; j <= i; ++j) sum += w.at.weights[i * kChunk + j];
      h.denominator[i0 + i] = sum;
    }
    divide_rows_cpu(w.at.phi_q, state.z, rows, w.M, h.denominator + i0, out, h.out_stride, w.P);
    w.add_keys(i0, rows, state);
  }
}

// Along the row for d_q, with the sums of the past; back again for d_k and d_v, with those of the future.
template <class T>
void backward_causal(const Work<T>& w, const LinearAttentionHeadGradient<T>& d) {
  const auto& h = w.h;
  const State<T> state(w.at.state, w.M, w.P), d_state(w.at.d_state, w.M, w.P);
  state.clear(w.M, w.P);
  d_state.clear(w.M, w.P);
  for (int64_t c = 0; c < chunks(h.length); ++c) {
    const int64_t i0 = c * kChunk, rows = std::min(kChunk, h.length - i0);
    w.keys(i0, rows, state);
    std::copy_n(state.largest, w.M, w.at.largest + c * w.M);
    query_features_cpu(h.features, w.query_block(i0, rows), state.largest);
    w.output_gradient(i0, rows, d.d_out);
    own_gradients(w, i0, rows);
    gemm<T>(false, false, rows, w.M, rows, T(1), w.at.gradients, kChunk, w.at.phi_k, w.M, T(0), w.at.d_phi,
            w.M);
    w.query_gradient(rows, state, true);
    query_features_backward_cpu(h.features, w.query_block(i0, rows), w.at.d_phi, d.d_q + i0 * h.q_stride);
    w.add_keys(i0, rows, state);
  }
  for (int64_t c = chunks(h.length) - 1; c >= 0; --c) {
    const int64_t i0 = c * kChunk, rows = std::min(kChunk, h.length - i0);
    T* largest = w.at.largest + c * w.M;
    key_features_cpu(h.features, w.key_block(i0, rows), largest, static_cast<T*>(nullptr));
    query_features_cpu(h.features, w.query_block(i0, rows), largest);
    w.output_gradient(i0, rows, d.d_out);
    own_weights(w, rows);
    own_gradients(w, i0, rows);
    gemm<T>(true, false, rows, w.M, rows, T(1), w.at.gradients, kChunk, w.at.phi_q, w.M, T(0), w.at.d_phi,
            w.M);
    gemm<T>(true, false, rows, w.P, rows, T(1), w.at.weights, kChunk, w.at.g, w.P, T(0),
            d.d_v + i0 * h.stride, h.stride);
    w.key_gradient(i0, rows, d_state, d.d_v, true);
    key_features_backward_cpu(h.features, w.key_block(i0, rows), w.at.d_phi, d.d_k + i0 * h.stride);
    w.add_queries(rows, d_state);
    if (h.features.projection && c > 0) {
      exp_difference_cpu(largest - w.M, largest, w.M, w.at.factor);
      scale_rows_cpu(d_state.s, d_state.z, w.at.factor, w.M, w.P);
    }
  }
}

}  // namespace

int64_t linear_attention_state(int64_t M, int64_t P) { return padded(M * P) + 2 * padded(M); }

int64_t linear_attention_scratch(int64_t length, int64_t M, int64_t P) {
  return 3 * padded(kBlock * M) + padded(kBlock * P) + padded(kBlock) + 2 * padded(kChunk * kChunk) +
         padded(M) + 2 * linear_attention_state(M, P) + padded(chunks(length) * M);
}

template <class T>
void linear_attention_forward_cpu(const LinearAttentionHead<T>& head, T* scratch) {
  const Work<T> work(head, scratch);
  head.causal ? forward_causal(work) : forward(work);
}

template <class T>
void linear_attention_backward_cpu(const LinearAttentionHead<T>& head,
                                   const LinearAttentionHeadGradient<T>& gradient, T* scratch) {
  const Work<T> work(head, scratch);
  head.causal ? backward_causal(work, gradient) : backward(work, gradient);
}

template void linear_attention_forward_cpu(const LinearAttentionHead<float>&, float*);
template void linear_attention_forward_cpu(const LinearAttentionHead<double>&, double*);
template void linear_attention_backward_cpu(const LinearAttentionHead<float>&,
                                            const LinearAttentionHeadGradient<float>&, float*);
template void linear_attention_backward_cpu(const LinearAttentionHead<double>&,
                                            const LinearAttentionHeadGradient<double>&, double*);

}  // namespace lra
