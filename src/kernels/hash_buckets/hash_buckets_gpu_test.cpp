#include <gtest/gtest.h>

#include "kernels/hash_buckets/hash_buckets.h"
#include "kernels/hash_buckets/hash_buckets_arguments.h"
#include "support/test_device.h"

namespace lra {
namespace {

struct Case {
  std::vector<int32_t> lengths;
  bool packed;
  int64_t heads, width, rounds, chunk;
};

// One column, a tile of them exactly, several, more than one slice of elements; odd widths; rows that need
// fewer columns than the longest; more positions than a block has.
const std::vector<Case> kCases{
    {{1}, true, 1, 1, 1, 1},           {{5, 1, 17}, true, 2, 7, 2, 3},    {{36, 20}, false, 1, 16, 1, 1},
    {{301, 2, 77}, true, 2, 64, 2, 4}, {{130, 259}, false, 3, 64, 2, 64}, {{75, 140, 3}, true, 1, 72, 3, 2},
    {{90, 41}, false, 2, 130, 1, 1},   {{61, 7}, true, 1, 128, 2, 5},     {{50}, true, 2, 256, 2, 2},
    {{33}, true, 1, 251, 1, 3},
};

struct Input {
  Tensor qv, matrix;  // q: [T, H, P] is the first half of qv
  Rows rows;
  int64_t chunk;

  Tensor q() const { return qv.select(1, 0); }
  Tensor buckets() const { return hash_buckets(q(), matrix, rows, chunk); }
};

int64_t columns_of(const Case& c, const Rows& rows) { return (rows.longest + c.chunk - 1) / c.chunk; }

// Vectors that bfloat16 has, and a matrix that float has; small integers are equal to many others, and their
// products exact.
Input make_input(const Case& c, bool integers = false) {
  torch::manual_seed(1);
  Input in{{}, {}, lay_out(c.lengths, c.packed), c.chunk};
  const auto numbers = [&](at::IntArrayRef sizes, torch::Dtype type) {
    return (integers ? torch::randint(-1, 2, sizes) : torch::randn(sizes)).to(type).to(torch::kDouble);
  };
  in.qv = numbers({in.rows.positions, 2, c.heads, c.width}, torch::kBFloat16);
  in.matrix = numbers({c.rounds, columns_of(c, in.rows), c.width}, torch::kFloat);
  return in;
}

Input moved(const Input& in, const TestDevice& device, torch::Dtype type) {
  Input out = in;
  out.qv = device.copy(in.qv).to(type);
  out.matrix = device.copy(in.matrix).to(type == torch::kDouble ? torch::kDouble : torch::kFloat);
  for (Tensor* t : {&out.rows.offsets, &out.rows.lengths, &out.rows.slots}) *t = device.copy(*t);
  return out;
}

Tensor device_buckets(const Input& in, torch::Dtype type) {
  const TestDevice device;
  EXPECT_GT(hash_vectors(in.qv.size(3), static_cast<int>(c10::elementSize(type))), 0);
  return device.run([&] { return moved(in, device, type).buckets(); }).to(torch::kCPU);
}

TEST(HashBucketsGpuTest, InDoublePrecisionEqualTensorOperations) {
  for (const Case& c : kCases) {
    const Input in = make_input(c);
    EXPECT_TRUE(torch::equal(device_buckets(in, torch::kDouble), in.buckets()))
        << c.lengths << " width " << c.width;
  }
}

// Other buckets only where scores differ by no more than the rounding of their sums.
TEST(HashBucketsGpuTest, InSinglePrecisionAreOfTheBestScores) {
  for (const Case& c : kCases) {
    const Input in = make_input(c);
    const Tensor expected = in.buckets();
    const int64_t columns = in.matrix.size(1), T = in.rows.positions;
    const auto by_round = [&](const Tensor& x,
                              const Tensor& matrix) {  // [rounds·H, T, columns]
      return torch::einsum("thp,rcp->rhtc", {x, matrix}).reshape({-1, T, columns});
    };
    const Tensor scores = by_round(in.q(), in.matrix),
                 rounding = by_round(in.q().abs(), in.matrix.abs()) * (static_cast<double>(c.width) * 6e-8);
    for (const auto type : {torch::kFloat, torch::kBFloat16}) {
      const Tensor ours = device_buckets(in, type);
      const Tensor other = (ours != expected).nonzero();
      EXPECT_LE(other.size(0), 1 + ours.numel() / 1000) << c.lengths << " width " << c.width;
      for (int64_t i = 0; i < other.size(0); ++i) {
        const int64_t n = other[i][0].item<int64_t>(), t = other[i][1].item<int64_t>();
        const auto score = [&](const Tensor& bucket, const Tensor& of) {
          const int64_t b = bucket[n][t].item<int64_t>() % hash_buckets_of_row(columns);
          int64_t half = columns;
          for (size_t row = 0; row < c.lengths.size(); ++row) {
            const int64_t at = in.rows.offsets[static_cast<int64_t>(row)].item<int64_t>();
            if (t >= at) half = (c.lengths[row] + c.chunk - 1) / c.chunk;
          }
          return (b < half ? 1 : -1) * of[n][t][b % half].item<double>();
        };
        EXPECT_NEAR(score(ours, scores), score(expected, scores), std::abs(score(expected, rounding)));
      }
    }
  }
}

// Vectors with one element pick it out of every column; the columns differ by their last bits.
TEST(HashBucketsGpuTest, EveryBitOfTheMatrixCounts) {
  for (const int64_t width : {7, 16, 64, 100, 256}) {
    Input in = make_input({{300}, true, 2, width, 2, 4});
    in.matrix = 1 + torch::randint(1 << 23, in.matrix.sizes(), torch::kDouble) / (1 << 23);
    in.matrix = in.matrix / 64 + torch::floor(63 * torch::rand({width}, torch::kDouble));
    in.matrix = in.matrix.to(torch::kFloat).to(torch::kDouble);
    const Tensor one = torch::randint(width, {in.rows.positions, 2, 2, 1}, torch::kLong);
    in.qv = torch::zeros_like(in.qv).scatter(3, one, -2.0);
    const Tensor expected = in.buckets();
    for (const auto type : {torch::kDouble, torch::kFloat, torch::kBFloat16}) {
      EXPECT_TRUE(torch::equal(device_buckets(in, type), expected)) << "width " << width << " " << type;
    }
  }
}

TEST(HashBucketsGpuTest, OfEqualScoresTheFirstIsTaken) {
  for (const Case& c : kCases) {
    const Input in = make_input(c, /*integers=*/true);
    for (const auto type : {torch::kDouble, torch::kFloat, torch::kBFloat16}) {
      EXPECT_TRUE(torch::equal(device_buckets(in, type), in.buckets()))
          << c.lengths << " width " << c.width << " " << type;
    }
  }
}

TEST(HashBucketsGpuTest, OfWhatIsNotANumberAreInRange) {
  Input in = make_input({{40, 9}, true, 1, 8, 2, 4});
  in.qv[0] = NAN;
  in.qv[1] = INFINITY;
  in.qv[2][0][0][3] = -NAN;
  in.qv[3] = 0;
  in.qv[41] = NAN;
  for (const auto type : {torch::kDouble, torch::kFloat, torch::kBFloat16}) {
    const Tensor buckets = device_buckets(in, type), first = buckets.narrow(1, 0, 40),
                 second = buckets.narrow(1, 40, 9) - hash_buckets_of_row(10);
    EXPECT_TRUE((first >= 0).logical_and(first < 20).all().item<bool>()) << first;
    EXPECT_TRUE((second >= 0).logical_and(second < 6).all().item<bool>()) << second;
    EXPECT_EQ(buckets[0][3].item<int>(), 0);
  }
}

TEST(HashBucketsGpuTest, WidthsBeyondTheKernelTakeTensorOperations) {
  const TestDevice device;
  const Input in = make_input({{9, 4}, true, 1, 700, 1, 3});
  EXPECT_EQ(hash_vectors(700, 4), 0);
  EXPECT_TRUE(torch::equal(
      device.run([&] { return moved(in, device, torch::kFloat).buckets(); }).to(torch::kCPU), in.buckets()));
}

TEST(HashMatrixGpuTest, IsThatOfTheCpu) {
  const TestDevice device;
  const Tensor step = torch::full({1}, 12345, torch::kLong);
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    const auto matrix = [&](const Tensor& s) { return hash_matrix(3, 17, 24, {7, 99, s}, type); };
    const Tensor expected = matrix(step),
                 ours = device.run([&] { return matrix(device.copy(step)); }).to(torch::kCPU);
    const double tolerance = type == torch::kDouble ? 1e-12 : 1e-5;
    EXPECT_TRUE(torch::allclose(ours, expected, tolerance, tolerance));
  }
}

}  // namespace
}  // namespace lra
