// BigBird: "Big Bird: Transformers for Longer Sequences" (Zaheer et al., 2020), with the blocks of its own
// code
// ("internal transformer construction").
//
// A row is cut into G blocks of b positions. Blocks 0 and G − 1 are global. Query block i sees the keys of
//
//   all blocks                                            i = 0 or i = G − 1
//   0, i−1, i, i+1, G−1 and r random blocks               else
//
//   A = softmax(q kᵀ / √P) over these;   y = A v W_o
//
// Random blocks differ for each layer, head and i and never change. They are drawn from blocks 1 … G − 2
// without i−1, i, i+1, none twice; a row too short to have r of them sees all there are.
//
// Time 2·H·L·(5 + r)·b·P, memory O(L). No causal form: the last block is global. No dropout on the weights,
// as in the authors' and the arena's code.
//
// Differences: there G is that of the padded batch, so the last global block may hold nothing but padding;
// here it is the row's own. There random blocks come from the first 1024 positions only (`rand_limit` 1024),
// drawn by a generator of another library; added padding counts as keys.
#include "base/philox.h"
#include "kernels/interval_attention/interval_blocks.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

struct BigBirdOptions : ModelOptions {
  int64_t block = 64, random_blocks = 3, rand_limit = 0;
  void visit(Fields& f) override {
    f.integer("block", block, 1, 1 << 20, "positions of a block (b)");
    f.integer("random_blocks", random_blocks, 0, 64, "random blocks a query block sees (r)");
    f.integer(
        "rand_limit", rand_limit, 0, 1 << 20,
        "random blocks come from so many first positions; 0: from the whole row; 1024 in the arena's code");
  }
};

// The s-th of the random blocks of block i, as a rank among m candidates: one of the m − s that are left when
// the ranks before it are struck out. `draws`: numbers below 2^31, `earlier`: the ranks before, ascending.
Tensor next_rank(const Tensor& draws, const Tensor& m, int64_t s, const std::vector<Tensor>& earlier) {
  Tensor rank = (draws * (m - s).clamp_min(0)).bitwise_right_shift(31);
  for (const auto& e : earlier) rank = rank + (rank >= e);
  return rank;
}

std::vector<Tensor> with_sorted(std::vector<Tensor> ascending, Tensor rank) {
  for (auto& e : ascending) {
    const Tensor smaller = torch::minimum(e, rank);
    rank = torch::maximum(e, rank);
    e = smaller;
  }
  ascending.push_back(rank);
  return ascending;
}

class BlockSparseAttention : public QkvMixer {
 public:
  BlockSparseAttention(const EncoderConfig& c, const BigBirdOptions& o, int64_t index)
      : QkvMixer(c, index), options_(o) {
    dropout_ = 0;
    // What the random blocks come from, int64 [H, G, r]: not a parameter, the same for every seed.
    const int64_t G = (c.positions_count() + o.block - 1) / o.block, r = o.random_blocks;
    Tensor draws = torch::empty({c.heads, G, r}, torch::kLong);
    Rng rng(static_cast<uint64_t>(index), stream_id("bigbird.random_blocks"));
    auto* at = draws.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < draws.numel(); ++i) at[i] = rng.next() >> 1;
    draws_ = draws;
  }

 protected:
  Tensor mix(const Tensor& qkv, const Forward& f) const override {
    const RowBlocks rows = row_blocks(f.rows, options_.block);
    return interval_attention(
               {.qkv = qkv, .rows = f.rows, .blocks = {global_blocks(f.rows, rows), inner_blocks(rows)}})
        .out;
  }

  Tensor mix_reference(const Row& row, const Forward& f) const override {
    const int64_t b = options_.block, G = (row.length + b - 1) / b;
    const auto column = [&](int64_t h, int64_t i, int64_t j) -> int64_t {
      const auto seen = key_blocks(h, i / b, G);
      return std::find(seen.begin(), seen.end(), j / b) != seen.end() ? 0 : -1;
    };
    return dense_attention(row.q, row.k, row.v, column, weight_dropout(f), row.number);
  }

  int64_t first_reach() const override { return 0; }

 private:
  // Blocks 0 and G − 1, which see the whole row.
  IntervalBlocks global_blocks(const Rows& all, const RowBlocks& rows) const {
    const int64_t b = options_.block;
    const Tensor last = torch::maximum(rows.start + (rows.used - 1) * b, rows.start);
    const Tensor first_end = torch::minimum(rows.start + b, rows.end);
    // A row of one block has it once.
    const Tensor begins = torch::cat({rows.start, torch::maximum(last, first_end)}, 1);
    return {.size = std::min(b, all.longest),
            .first = begins,
            .last = torch::cat({first_end, rows.end}, 1),
            .slots = {{.column = 0, .width = all.longest}},
            .begin = slot_table({rows.start.expand_as(begins)}),
            .end = slot_table({rows.end.expand_as(begins)})};
  }

  // Blocks 1 … G − 2.
  IntervalBlocks inner_blocks(const RowBlocks& rows) const {
    const int64_t b = options_.block, r = options_.random_blocks;
    const Tensor i = rows.index, G = rows.used;  // [1, G], [B, 1]
    const Tensor inner = (i >= 1).logical_and(i < G - 1);
    const auto at = [&](const Tensor& block) { return rows.start + block * b; };  // its first position
    IntervalBlocks blocks{
        .size = b,
        .first = rows.first,
        .last = torch::where(inner, rows.last, rows.first),
        .slots = {{.column = 0, .width = b}, {.column = b, .width = 3 * b}, {.column = 4 * b, .width = b}}};
    const Tensor start = rows.start.expand_as(rows.first);
    std::vector<Tensor> begin = {start, at((i - 1).clamp_min(1)), at(G - 1).expand_as(rows.first)};
    std::vector<Tensor> end = {start + b, at(torch::minimum(i + 2, G - 1)), rows.end.expand_as(rows.first)};
    for (int64_t s = 0; s < r; ++s) blocks.slots.push_back({.column = (5 + s) * b, .width = b});
    const auto [random, found] = random_blocks(rows);  // [B, H, G, r] each
    const auto table = [&](const std::vector<Tensor>& shared, const Tensor& own) {
      const Tensor first = slot_table(shared).expand({-1, heads_, -1, -1});
      return torch::cat({first, own}, 3).to(torch::kInt).contiguous();
    };
    const Tensor positions = rows.start.view({-1, 1, 1, 1}) + random * b;
    blocks.begin = table(begin, positions);
    blocks.end = table(end, positions + b * found.to(torch::kLong));
    return blocks;
  }

  // The highest block that may be a random one of rows of G blocks.
  template <class Count>
  Count highest(const Count& G, Count (*least)(const Count&, int64_t)) const {
    return options_.rand_limit > 0 ? least(G - 2, options_.rand_limit / options_.block - 1) : G - 2;
  }

  struct RandomBlocks {
    Tensor block, found;  // [B, H, G, r]: a block, and whether there is one
  };

  // The definition is in `key_blocks`; this is the same in closed form, for all blocks of all rows.
  RandomBlocks random_blocks(const RowBlocks& rows) const {
    const Tensor i = rows.index.to(torch::kLong).unsqueeze(1),  // [1, 1, G]
        G = rows.used.to(torch::kLong).unsqueeze(1);            // [B, 1, 1]
    const Tensor top =
        highest<Tensor>(G, [](const Tensor& g, int64_t most) { return g.clamp_max(most); }).clamp_min(0);
    const Tensor low = (i - 1).clamp_min(1), high = torch::minimum(i + 1, top);  // the window's blocks
    const Tensor window = (high - low + 1).clamp_min(0), m = (top - window).clamp_min(0);
    const Tensor draws = draws_on(G.device()).narrow(1, 0, rows.count);  // [H, G, r]
    std::vector<Tensor> ascending, block, found;
    for (int64_t s = 0; s < options_.random_blocks; ++s) {
      const Tensor rank = next_rank(draws.select(2, s).unsqueeze(0), m, s, ascending);  // [B, H, G]
      ascending = with_sorted(ascending, rank);
      block.push_back(1 + rank + window * (1 + rank >= low));
      found.push_back((m > s).expand_as(rank));
    }
    if (block.empty()) {
      const Tensor none = torch::empty({G.size(0), heads_, rows.count, 0}, G.options());
      return {none, none};
    }
    return {torch::stack(block, 3), torch::stack(found, 3)};
  }

  // What query block i of G sees, from the definition.
  std::vector<int64_t> key_blocks(int64_t h, int64_t i, int64_t G) const {
    std::vector<int64_t> seen, candidates;
    const bool global = i == 0 || i == G - 1;
    const int64_t top = highest<int64_t>(G, [](const int64_t& g, int64_t most) { return std::min(g, most); });
    for (int64_t j = 0; j < G; ++j) {
      if (global || j == 0 || j == G - 1 || std::abs(j - i) <= 1) {
        seen.push_back(j);
      } else if (j <= top) {
        candidates.push_back(j);
      }
    }
    for (int64_t s = 0; s < options_.random_blocks && !candidates.empty() && !global; ++s) {
      const auto left = static_cast<int64_t>(candidates.size());
      const auto chosen = candidates.begin() + ((draws_[h][i][s].item<int64_t>() * left) >> 31);
      seen.push_back(*chosen);
      candidates.erase(chosen);
    }
    return seen;
  }

  const Tensor& draws_on(const torch::Device& device) const {
    if (draws_.device() == device) return draws_;
    if (!device_draws_.defined() || device_draws_.device() != device) device_draws_ = draws_.to(device);
    return device_draws_;
  }

  BigBirdOptions options_;
  Tensor draws_;
  mutable Tensor device_draws_;
};

class BigBird : public Model {
 public:
  const ModelInfo& info() const override {
    static const ModelInfo info{
        .name = "bigbird",
        .title = "BigBird",
        .paper = "Zaheer et al., Big Bird: Transformers for Longer Sequences, NeurIPS 2020",
        .formula =
            "softmax(q kᵀ / √P) v over blocks of b keys: the query's own and its neighbours, the first, the "
            "last, and r random ones; the first and the last block see all",
        .cost = "time O(L·(5 + r)·b), memory O(L)",
        .causal = false,
        .differences =
            "The last global block is the row's own (in the arena's code that of the padded batch), random "
            "blocks "
            "come from the whole row (there from its first 1024 positions: rand_limit), padding is never "
            "attended "
            "to. No dropout on the weights, as there.",
    };
    return info;
  }
  std::unique_ptr<ModelOptions> options() const override { return std::make_unique<BigBirdOptions>(); }
  std::unique_ptr<ModelOptions> small_options() const override {
    auto o = std::make_unique<BigBirdOptions>();
    o->block = 5;
    return o;
  }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions& o, int64_t index) const override {
    const auto& options = dynamic_cast<const BigBirdOptions&>(o);
    return std::make_shared<StandardBlock>(c, index, "attention",
                                           std::make_shared<BlockSparseAttention>(c, options, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions&) const override {
    return feed_forward_parameters(c) + 4 * c.width * c.qkv_width;
  }
};

const Registered<Model> bigbird(std::make_unique<BigBird>(), LRA_HERE);

}  // namespace
}  // namespace lra
