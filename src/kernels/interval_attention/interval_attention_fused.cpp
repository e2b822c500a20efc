// The CPU's form: every (row, head) is one task. Its keys and values are packed side by side once (a head's
// keys else lie on as many memory pages as there are positions), then block after block of queries is
// computed by the kernel in interval_attention_cpu.cpp.
#include <algorithm>

#include "base/torch_compat.h"
#include "kernels/interval_attention/interval_attention_cpu.h"
#include "kernels/interval_attention/interval_attention_plan.h"
#include "kernels/scratch.h"

namespace lra {
namespace {

template <class T>
struct Problem {
  const IntervalPlan& plan;
  const T *qkv, *side;  // side: null where there is none of its own
  T *out, *lse;
  int64_t H, P, R, T_count;
  // backward
  const T *d_out = nullptr, *d_lse = nullptr;
  T *d_qkv = nullptr, *d_side = nullptr;

  int64_t columns() const {
    int64_t most = 1;
    for (const auto& b : plan.blocks) most = std::max(most, b.columns());
    return most;
  }
};

const int32_t* ints(const Tensor& t) { return t.defined() ? t.const_data_ptr<int32_t>() : nullptr; }

// Neighbours in memory and in columns become one segment, and one product.
void append(std::vector<IntervalSegment>& segments, const IntervalSegment& next) {
  if (!segments.empty()) {
    IntervalSegment& last = segments.back();
    const bool joins = last.end == next.begin && last.column + (last.end - last.begin) == next.column;
    if (joins && last.banded == next.banded && last.side == next.side) {
      last.end = next.end;
      return;
    }
  }
  segments.push_back(next);
}

// One (row, head) of a problem, for one round at a time.
template <class T>
class Task {
 public:
  Task(const Problem<T>& p, int64_t row, int64_t head)
      : p_(p),
        row_(row),
        head_(head),
        at_(ints(p.plan.rows.offsets)[row]),
        n_(ints(p.plan.rows.lengths)[row]),
        keys_(n_ + p.plan.side_pitch),
        scratch_(elements()) {
    k_ = scratch_.take(keys_ * p.P);
    v_ = scratch_.take(keys_ * p.P);
    d_k_ = scratch_.take(keys_ * p.P);
    d_v_ = scratch_.take(keys_ * p.P);
    for (T** piece : {&q_, &out_, &d_q_, &d_out_}) *piece = scratch_.take(sorted() ? n_ * p.P : 0);
    for (T** piece : {&lse_, &d_lse_}) *piece = scratch_.take(sorted() ? n_ : 0);
    tile_ = scratch_.take(interval_scratch(p.columns()));
  }

  void forward() {
    for (int64_t round = 0; round < p_.R; ++round) {
      begin(round);
      const IntervalHead<T> h = head();
      for_each_tile([&](const IntervalTile& tile) { interval_forward_cpu(h, tile, tile_); });
      if (!sorted()) continue;
      for (int64_t i = 0; i < n_; ++i) {
        std::copy_n(out_ + i * p_.P, p_.P, output(p_.out, i));
        *statistic(p_.lse, i) = lse_[i];
      }
    }
  }

  void backward() {
    for (int64_t round = 0; round < p_.R; ++round) {
      begin(round);
      std::fill_n(d_k_, keys_ * p_.P, T(0));
      std::fill_n(d_v_, keys_ * p_.P, T(0));
      if (sorted()) begin_sorted_backward();
      const IntervalHead<T> h = head();
      const IntervalHeadGradient<T> d =
          sorted() ? IntervalHeadGradient<T>{d_out_, p_.d_lse ? d_lse_ : nullptr, d_q_, d_k_, d_v_}
                   : IntervalHeadGradient<T>{output(p_.d_out, 0), p_.d_lse ? statistic(p_.d_lse, 0) : nullptr,
                                             input(p_.d_qkv, at_, 0), d_k_, d_v_};
      for_each_tile([&](const IntervalTile& tile) { interval_backward_cpu(h, d, tile, tile_); });
      for (int64_t i = 0; i < n_; ++i) {
        if (sorted()) add(d_q_ + i * p_.P, input(p_.d_qkv, position(i), 0));
        add(d_k_ + i * p_.P, input(p_.d_qkv, position(i), 1));
        add(d_v_ + i * p_.P, input(p_.d_qkv, position(i), 2));
      }
      add_side();
    }
  }

 private:
  bool sorted() const { return p_.plan.order.defined(); }
  int64_t virtual_head() const { return round_ * p_.H + head_; }
  int64_t position(int64_t place) const { return order_ ? order_[place] : at_ + place; }

  // Where things stand: part 0, 1, 2 of qkv at a position; the output and its statistics at a place.
  template <class U>
  U* input(U* qkv, int64_t position, int64_t part) const {
    return qkv + ((position * 3 + part) * p_.H + head_) * p_.P;
  }
  template <class U>
  U* output(U* out, int64_t place) const {
    return out + (position(place) * p_.R * p_.H + virtual_head()) * p_.P;
  }
  template <class U>
  U* statistic(U* lse, int64_t place) const {
    return lse + position(place) * p_.R * p_.H + virtual_head();
  }
  template <class U>
  U* side_input(U* side, int64_t place, int64_t part) const {
    return side + (((row_ * p_.plan.side_pitch + place) * 2 + part) * p_.H + head_) * p_.P;
  }
  void add(const T* from, T* to) const {
    for (int64_t c = 0; c < p_.P; ++c) to[c] += from[c];
  }

  int64_t elements() const {
    const int64_t own = sorted() ? n_ : 0;
    return 4 * scratch_round(keys_ * p_.P) + 4 * scratch_round(own * p_.P) + 2 * scratch_round(own) +
           scratch_round(interval_scratch(p_.columns()));
  }

  // Packs keys and values, and queries where they are sorted.
  void begin(int64_t round) {
    round_ = round;
    order_ = sorted() ? ints(p_.plan.order) + virtual_head() * p_.T_count + at_ : nullptr;
    least_.clear();
    if (p_.plan.least.defined()) {
      const int32_t* from = ints(p_.plan.least) + virtual_head() * p_.T_count + at_;
      for (int64_t i = 0; i < n_; ++i) least_.push_back(from[i] - static_cast<int32_t>(at_));
    }
    for (int64_t i = 0; i < n_; ++i) {
      std::copy_n(input(p_.qkv, position(i), 1), p_.P, k_ + i * p_.P);
      std::copy_n(input(p_.qkv, position(i), 2), p_.P, v_ + i * p_.P);
      if (sorted()) std::copy_n(input(p_.qkv, position(i), 0), p_.P, q_ + i * p_.P);
    }
    const int32_t* side_at = ints(p_.plan.side_at);
    for (int64_t i = 0; i < p_.plan.side_pitch; ++i) {
      T *k = k_ + (n_ + i) * p_.P, *v = v_ + (n_ + i) * p_.P;
      if (p_.side) {
        std::copy_n(side_input(p_.side, i, 0), p_.P, k);
        std::copy_n(side_input(p_.side, i, 1), p_.P, v);
      } else {
        const int64_t from = side_at[row_ * p_.plan.side_pitch + i];
        std::copy_n(input(p_.qkv, from, 1), p_.P, k);
        std::copy_n(input(p_.qkv, from, 2), p_.P, v);
      }
    }
  }

  void begin_sorted_backward() {
    for (int64_t i = 0; i < n_; ++i) {
      std::copy_n(output(p_.out, i), p_.P, out_ + i * p_.P);
      std::copy_n(output(p_.d_out, i), p_.P, d_out_ + i * p_.P);
      lse_[i] = *statistic(p_.lse, i);
      if (p_.d_lse) d_lse_[i] = *statistic(p_.d_lse, i);
    }
  }

  void add_side() {
    const int32_t* side_at = ints(p_.plan.side_at);
    for (int64_t i = 0; i < p_.plan.side_pitch; ++i) {
      const T *k = d_k_ + (n_ + i) * p_.P, *v = d_v_ + (n_ + i) * p_.P;
      if (p_.side) {
        std::copy_n(k, p_.P, side_input(p_.d_side, i, 0));
        std::copy_n(v, p_.P, side_input(p_.d_side, i, 1));
      } else {
        const int64_t to = side_at[row_ * p_.plan.side_pitch + i];
        add(k, input(p_.d_qkv, to, 1));
        add(v, input(p_.d_qkv, to, 2));
      }
    }
  }

  IntervalHead<T> head() const {
    IntervalHead<T> h{};
    h.q = sorted() ? q_ : input(p_.qkv, at_, 0);
    h.q_stride = sorted() ? p_.P : 3 * p_.H * p_.P;
    h.k = k_;
    h.v = v_;
    h.out = sorted() ? out_ : output(p_.out, 0);
    h.out_stride = sorted() ? p_.P : p_.H * p_.P;
    h.lse = sorted() ? lse_ : statistic(p_.lse, 0);
    h.lse_stride = sorted() ? 1 : p_.H;
    h.width = p_.P;
    h.scale = static_cast<T>(p_.plan.scale);
    h.self_penalty = p_.plan.spare_self ? static_cast<T>(kSelfPenalty) : T(0);
    h.least = least_.empty() ? nullptr : least_.data();
    if (p_.plan.dropout.active()) {
      const DropoutDraw draw = p_.plan.dropout.draw();
      h.seed = draw.seed;
      h.stream = dropout_stream(draw.site, *draw.step);
      h.first = dropout_attention_position(draw.slots[at_] >> 24, p_.H, head_, 0);
      h.rate = draw.rate;
    }
    return h;
  }

  template <class F>
  void for_each_tile(const F& f) const {
    std::vector<IntervalSegment> segments;
    for (const IntervalBlocks& b : p_.plan.blocks) {
      const int64_t G = b.first.size(1), S = static_cast<int64_t>(b.slots.size());
      const int64_t shared = b.begin.size(1) == 1 ? 0 : head_;
      for (int64_t g = 0; g < G; ++g) {
        const int64_t block = row_ * G + g;
        const int64_t first = ints(b.first)[block] - at_, last = ints(b.last)[block] - at_;
        if (last <= first) continue;
        const int64_t of_block = ((row_ * b.begin.size(1) + shared) * G + g) * S;
        segments.clear();
        for (int64_t s = 0; s < S; ++s) {
          const KeySlot& slot = b.slots[static_cast<size_t>(s)];
          const int64_t shift = slot.side ? n_ - row_ * p_.plan.side_pitch : -at_;
          const int64_t begin = ints(b.begin)[of_block + s], end = ints(b.end)[of_block + s];
          if (end > begin)
            append(segments, {slot.column, begin + shift, end + shift, slot.banded, slot.side});
        }
        if (!segments.empty()) {
          f(IntervalTile{first, last, b.low, b.high, segments.data(), static_cast<int>(segments.size())});
        }
      }
    }
  }

  const Problem<T>& p_;
  int64_t row_, head_, at_, n_, keys_, round_ = 0;
  const int32_t* order_ = nullptr;  // of this row, head and round: place → position
  std::vector<int32_t> least_;
  ScratchPieces<T> scratch_;
  T *k_ = nullptr, *v_ = nullptr, *d_k_ = nullptr, *d_v_ = nullptr, *q_ = nullptr, *out_ = nullptr,
    *d_q_ = nullptr, *d_out_ = nullptr, *lse_ = nullptr, *d_lse_ = nullptr, *tile_ = nullptr;
};

template <class T>
Problem<T> make_problem(const IntervalPlan& plan, const Tensor& qkv, const Tensor& side,
                        const IntervalAttentionOutput& y) {
  const int64_t H = qkv.size(2);
  return {plan,
          qkv.const_data_ptr<T>(),
          side.defined() ? side.const_data_ptr<T>() : nullptr,
          y.out.mutable_data_ptr<T>(),
          y.lse.mutable_data_ptr<T>(),
          H,
          qkv.size(3),
          y.out.size(1) / H,
          qkv.size(0)};
}

template <class T>
void run(const Problem<T>& p, bool backward) {
  parallel_tasks(p.plan.rows.count * p.H, [&](int64_t i) {
    Task<T> task(p, i / p.H, i % p.H);
    backward ? task.backward() : task.forward();
  });
}

template <class T>
IntervalGradient backward(const IntervalPlan& plan, const Tensor& qkv, const Tensor& side,
                          const IntervalAttentionOutput& y, const Tensor& d_out, const Tensor& d_lse) {
  IntervalGradient d{torch::zeros_like(qkv), side.defined() ? torch::zeros_like(side) : Tensor()};
  Problem<T> p = make_problem<T>(plan, qkv, side, y);
  p.d_out = d_out.const_data_ptr<T>();
  p.d_lse = d_lse.defined() ? d_lse.const_data_ptr<T>() : nullptr;
  p.d_qkv = d.qkv.mutable_data_ptr<T>();
  p.d_side = side.defined() ? d.side.mutable_data_ptr<T>() : nullptr;
  run(p, true);
  return d;
}

}  // namespace

IntervalAttentionOutput interval_forward_fused(const IntervalPlan& plan, const Tensor& qkv,
                                               const Tensor& side) {
  const int64_t R_H = plan.order.defined() ? plan.order.size(0) : qkv.size(2);
  const IntervalAttentionOutput y{torch::zeros({qkv.size(0), R_H, qkv.size(3)}, qkv.options()),
                                  torch::zeros({qkv.size(0), R_H}, qkv.options())};
  qkv.scalar_type() == torch::kDouble ? run(make_problem<double>(plan, qkv, side, y), false)
                                      : run(make_problem<float>(plan, qkv, side, y), false);
  return y;
}

IntervalGradient interval_backward_fused(const IntervalPlan& plan, const Tensor& qkv, const Tensor& side,
                                         const IntervalAttentionOutput& y, const Tensor& d_out,
                                         const Tensor& d_lse) {
  return qkv.scalar_type() == torch::kDouble ? backward<double>(plan, qkv, side, y, d_out, d_lse)
                                             : backward<float>(plan, qkv, side, y, d_out, d_lse);
}

}  // namespace lra
