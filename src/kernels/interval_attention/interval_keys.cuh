// The kernels that go by queries (forward, gradient of the queries): a block of threads has a tile of 64
// queries and walks over the keys it sees, 64 at a time.
//
// The keys of all slots are put side by side in one list. So that the numbers of dropout can be drawn by
// eights, the weights at 8m … 8m + 7 of the list belong to one octet of columns: where a slot does not
// continue the columns of the one before it, it begins at the next such place and leaves some empty.
//
// While one tile of keys is worked on, the next is on its way into shared memory, what is known of the one
// after that is put there, and the places of the one after that are being looked up.
#pragma once
#include "kernels/interval_attention/interval_tiles.cuh"

namespace lra {

// A query i sees the key if low_i ≤ from and to ≤ high_i: place ≤ place for one in a band, the ends of all
// integers for one that all see, the wrong way round for none.
struct alignas(16) Key {
  int32_t from, to;
  int32_t own;  // its place, or −1 for side keys
};

struct KeyTile {
  Key key[kIntervalTile];
  const Bf16* row[kIntervalTile];         // null: no key
  int32_t octet[kIntervalTile / kOctet];  // of columns
  int32_t plain[2];                       // whether all queries see all keys, of each half
};

template <int kWidth>
struct alignas(16) QueryShared {
  Bf16 k[2][TileShape<kWidth>::kElements], v[2][TileShape<kWidth>::kElements];
  KeyTile keys[3];
  struct {
    int32_t start, count, begin, shift;
  } slot[kIntervalMostSlots];
  int32_t keys_end;
  int32_t position[kIntervalTile];  // of the queries; −1: none
  WeightDraw draw;                  // here and not in registers
};

// Which queries: `count` from place `first` on.
struct QueryTile {
  int row, virtual_head, head, block;
  int row_start, first, count;

  // Grid: (virtual heads × pieces, blocks × tiles, rows); blocks from the last on, as later blocks may have
  // more keys.
  __device__ QueryTile(const IntervalData& d, const IntervalGroup& group, int first_head)
      : row(static_cast<int>(blockIdx.z)),
        virtual_head(first_head + static_cast<int>(blockIdx.x) / group.pieces),
        head(virtual_head % d.heads),
        block(group.blocks - 1 - static_cast<int>(blockIdx.y) / group.tiles) {
    const int tile = static_cast<int>(blockIdx.y) % group.tiles, at = row * group.blocks + block;
    row_start = d.offsets[row];
    first = group.first[at] + tile * kIntervalTile;
    const int left = group.last[at] - first;
    count = left < kIntervalTile ? left : kIntervalTile;
  }
  __device__ int piece(const IntervalGroup& group) const {
    return static_cast<int>(blockIdx.x) % group.pieces;
  }
  // Of the tiles that are worked on at a time.
  __device__ int64_t number(const IntervalGroup& group) const {
    return (static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * (gridDim.x / group.pieces) +
           blockIdx.x / group.pieces;
  }
};

// What a lane knows of its two queries, at `place` and at place + 8: the least banded key that each sees.
struct QueryPair {
  int place, low[2];
};

template <int kWidth>
class KeyWalk {
 public:
  __device__ KeyWalk(const IntervalData& d, const IntervalGroup& group, const QueryTile& q,
                     QueryShared<kWidth>& shared)
      : d_(d), group_(group), q_(q), s_(shared) {
    list_keys();
  }

  // Tiles of keys from … to − 1 of piece `piece`; false if there is no such piece.
  __device__ bool take_piece(int piece, int& pieces, int& from, int& to) const {
    constexpr int kLeast = 4;  // tiles of a piece
    const int tiles = (s_.keys_end + kIntervalTile - 1) / kIntervalTile;
    pieces = (tiles + kLeast - 1) / kLeast;
    pieces = pieces < group_.pieces ? pieces : group_.pieces;
    pieces = pieces > 1 ? pieces : 1;
    from = tiles * piece / pieces;
    to = tiles * (piece + 1) / pieces;
    return piece < pieces;
  }

  __device__ QueryPair queries() const {
    QueryPair pair;
    const int first = this_warp() * 16 + this_lane() / 4;
    pair.place = q_.first + first;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = pair.place + 8 * r;
      pair.low[r] = i + group_.low;
      if (d_.least && first + 8 * r < q_.count) {
        const int least = d_.least[q_.virtual_head * d_.positions + i];
        pair.low[r] = least > pair.low[r] ? least : pair.low[r];
      }
    }
    return pair;
  }

  // −∞ for what a query does not see, of columns `first` … of a tile.
  template <int kColumns>
  __device__ void mask(float (&scores)[kColumns][4], const KeyTile& tile, const QueryPair& q,
                       int first) const {
    if (tile.plain[0] && tile.plain[1]) return;
    const float penalty = d_.self_penalty / d_.scale;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const Key key = tile.key[first + n * 8 + this_lane() % 4 * 2 + e];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float& score = scores[n][2 * r + e];
          if (penalty != 0 && key.own == q.place + 8 * r) score -= penalty;
          if (q.low[r] > key.from || key.to > q.place + 8 * r + group_.high) score = -INFINITY;
        }
      }
    }
  }

  // Bit 16·r + 2·n + e: whether the weight at [n][2·r + e] is kept, of the octets `first` … of a tile.
  template <int kColumns>
  __device__ uint32_t draw(const WeightDraw& draw, const DropoutKeys& keys, const KeyTile& tile,
                           const QueryPair& q, int first) const {
    constexpr int kEach = kColumns / 4;  // octets that a lane draws for the four that have the same rows
    const int lane = this_lane();
    uint32_t mine = 0, kept = 0;
#pragma unroll 1  // one after the other: registers
    for (int j = 0; j < kEach; ++j) {
#pragma unroll 1
      for (int r = 0; r < 2; ++r) {
        const int octet = tile.octet[first + lane % 4 * kEach + j];
        mine |= draw.octet(keys, q.place + 8 * r - q_.row_start, octet) << (8 * (2 * j + r));
      }
    }
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const uint32_t theirs = __shfl_sync(kAllLanes, mine, lane / 4 * 4 + n / kEach);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        kept |= ((theirs >> (8 * (2 * (n % kEach) + r) + lane % 4 * 2)) & 3u) << (16 * r + 2 * n);
      }
    }
    return kept;
  }

  // Begins to copy the queries into k[1], and `other` [T, R·H, P] beside them into v[1].
  __device__ void copy_queries(const Bf16* other) const {
    if (this_thread() < kIntervalTile) {
      const int n = this_thread(), i = q_.first + n;
      int position = -1;
      if (n < q_.count) position = d_.order ? d_.order[q_.virtual_head * d_.positions + i] : i;
      s_.position[n] = position;
    }
    __syncthreads();
    const auto* qkv = static_cast<const Bf16*>(d_.qkv);
    copy_tiles<kWidth>(s_.k[1], s_.v[1], d_.width, qkv, [&](int row) -> TwoRows {
      const int64_t position = s_.position[row];
      if (position < 0) return {nullptr, nullptr};
      const int64_t at = (position * d_.rounds * d_.heads + q_.virtual_head) * d_.width;
      return {qkv + (position * 3 * d_.heads + q_.head) * d_.width, other ? other + at : nullptr};
    });
  }

  // begin(): the queries are in k[1] and v[1]; then work(k, v, keys) for each tile.
  template <class Begin, class Work>
  __device__ void run(int from, int to, const Begin& begin, const Work& work) {
    Ahead ahead = find(from);
    put(s_.keys[0], ahead);
    ahead = find(from + 1);
    put(s_.keys[1], ahead);
    ahead = find(from + 2);
    __syncthreads();
    if (from < to) copy(0, s_.keys[0]);
    copy_async_commit();
    copy_async_wait();
    __syncthreads();
    begin();
    int now = 0;  // of three
    for (int t = from; t < to; ++t) {
      const int stage = (t - from) % 2, next = now == 2 ? 0 : now + 1, after = next == 2 ? 0 : next + 1;
      copy_async_wait();
      __syncthreads();
      if (t + 1 < to) copy(1 - stage, s_.keys[next]);
      copy_async_commit();
      put(s_.keys[after], ahead);
      ahead = find(t + 3);
      work(s_.k[stage], s_.v[stage], s_.keys[now]);
      now = next;
    }
  }

 private:
  struct Ahead {
    int position;  // −1: no key; −2 − place: among the side keys of their own
    Key key;
    int octet;
    bool plain;
  };

  __device__ void list_keys() {
    const int table_head = group_.table_heads == 1 ? 0 : q_.head;
    const int64_t at =
        ((static_cast<int64_t>(q_.row) * group_.table_heads + table_head) * group_.blocks + q_.block) *
        group_.slots;
    if (this_thread() < group_.slots) {
      const int begin = group_.begin[at + this_thread()], end = group_.end[at + this_thread()];
      s_.slot[this_thread()].begin = begin;
      s_.slot[this_thread()].count = end > begin ? end - begin : 0;
    }
    __syncthreads();
    if (this_thread() == 0) {
      int end = 0, shift = INT_MIN;
      for (int s = 0; s < group_.slots; ++s) {
        auto& slot = s_.slot[s];
        slot.start = 0;
        if (slot.count == 0) continue;
        const int column = group_.slot[s].column;
        if (column - end != shift) end = (end + kOctet - 1) / kOctet * kOctet + column % kOctet;
        slot.start = end;
        slot.shift = shift = column - end;
        end += slot.count;
      }
      s_.keys_end = end;
    }
    __syncthreads();
  }

  // The key of this thread in a tile, one of the first 64.
  __device__ Ahead find(int tile) const {
    Ahead found{-1, {INT_MIN, INT_MAX, -1}, -1, false};
    if (this_thread() >= kIntervalTile) return found;
    const int p = tile * kIntervalTile + this_thread();
    for (int s = 0; s < group_.slots; ++s) {
      const auto& slot = s_.slot[s];
      const int offset = p - slot.start;
      if (offset < 0 || offset >= slot.count) continue;
      const int place = slot.begin + offset;
      const bool banded = group_.slot[s].banded != 0;
      found.octet = (slot.shift + p) / kOctet;
      found.key.from = banded ? place : INT_MAX;
      found.key.to = banded ? place : INT_MIN;
      found.plain =
          d_.self_penalty == 0 && (!banded || (!d_.least && place >= q_.first + q_.count - 1 + group_.low &&
                                               place <= q_.first + group_.high));
      if (group_.slot[s].side) {
        found.position = d_.side ? -2 - place : d_.side_at[place];
      } else {
        found.key.own = place;
        found.position = d_.order ? d_.order[q_.virtual_head * d_.positions + place] : place;
      }
      break;
    }
    return found;
  }

  __device__ void put(KeyTile& tile, const Ahead& ahead) const {
    if (this_thread() >= kIntervalTile) return;
    tile.key[this_thread()] = ahead.key;
    tile.row[this_thread()] = row_of(ahead.position);
    const bool plain = __all_sync(kAllLanes, ahead.plain) != 0;
    if (this_lane() == 0) tile.plain[this_warp()] = plain;
    int octet = ahead.octet;
#pragma unroll
    for (int o = 1; o < kOctet; o *= 2) {
      const int other = __shfl_xor_sync(kAllLanes, octet, o);
      octet = octet > other ? octet : other;
    }
    if (this_thread() % kOctet == 0) tile.octet[this_thread() / kOctet] = octet;
  }

  __device__ const Bf16* row_of(int64_t position) const {
    const int64_t rows = position >= 0 ? position * 3 + 1 : (-2 - position) * 2;
    const auto* from = static_cast<const Bf16*>(position >= 0 ? d_.qkv : d_.side);
    return position == -1 ? nullptr : from + (rows * d_.heads + q_.head) * d_.width;
  }
  __device__ void copy(int stage, const KeyTile& tile) const {
    const int64_t values = int64_t{d_.heads} * d_.width;
    const auto* qkv = static_cast<const Bf16*>(d_.qkv);
    copy_tiles<kWidth>(s_.k[stage], s_.v[stage], d_.width, qkv, [&](int n) -> TwoRows {
      const Bf16* row = tile.row[n];
      return {row, row ? row + values : nullptr};
    });
  }

  const IntervalData& d_;
  const IntervalGroup& group_;
  const QueryTile& q_;
  QueryShared<kWidth>& s_;
};

}  // namespace lra
