#include "kernels/rows/grid.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

using torch::Tensor;

// Three rows with positions left over at the end of the buffer, as a source of fixed size makes them.
Rows with_leftover() {
  Rows rows = lay_out({3, 1, 4, 2}, true);  // the fourth row is what is left over
  rows.count = 3;
  rows.lengths = rows.lengths.narrow(0, 0, 3);
  return rows;
}

TEST(GridTest, PutsRowsSideBySideWithZerosBeyondTheirEnd) {
  const Tensor x = torch::arange(1, 11, torch::kDouble).view({10, 1});
  const Tensor expected = torch::tensor({1, 2, 3, 0, 4, 0, 0, 0, 5, 6, 7, 8}, torch::kDouble).view({3, 4, 1});
  EXPECT_TRUE(torch::equal(to_grid(x, with_leftover()), expected));
  EXPECT_TRUE(torch::equal(to_grid(x, lay_out({3, 1, 4}, true)).sum(), torch::full({}, 36, torch::kDouble)));
}

TEST(GridTest, ThereAndBackKeepsRowsAndClearsTheRest) {
  for (const Rows& rows : {with_leftover(), lay_out({5, 5}, true), lay_out({2, 5}, false)}) {
    const Tensor x = torch::randn({rows.positions, 2, 3}, torch::kDouble);
    const Tensor back = from_grid(to_grid(x, rows), rows);
    for (int64_t b = 0; b < rows.count; ++b) {
      const int64_t at = rows.offsets[b].item<int64_t>(), n = rows.lengths[b].item<int64_t>();
      EXPECT_TRUE(torch::equal(back.narrow(0, at, n), x.narrow(0, at, n)));
    }
    EXPECT_TRUE(torch::allclose(back.square().sum(), (back * x).sum()));
  }
}

// ⟨to_grid(x), y⟩ = ⟨x, from_grid(y)⟩, and so are their gradients.
TEST(GridTest, EachIsTheOthersTransposeAndGradient) {
  const Rows rows = with_leftover();
  const Tensor x = torch::randn({10, 2}, torch::kDouble).requires_grad_(true),
               y = torch::randn({3, 4, 2}, torch::kDouble).requires_grad_(true);
  const Tensor left = (to_grid(x, rows) * y.detach()).sum(), right = (x.detach() * from_grid(y, rows)).sum();
  EXPECT_TRUE(torch::allclose(left, right));
  left.backward();
  right.backward();
  EXPECT_TRUE(torch::allclose(x.grad(), from_grid(y, rows)));
  EXPECT_TRUE(torch::allclose(y.grad(), to_grid(x, rows)));
}

TEST(GridTest, ByPlaceReadsTheTableAndSumsItsGradientOverRows) {
  const Rows rows = with_leftover();
  const Tensor table = torch::randn({6, 2}, torch::kDouble).requires_grad_(true);
  const Tensor y = by_place(table, rows);
  EXPECT_TRUE(torch::equal(y.narrow(0, 4, 4), table.narrow(0, 0, 4)));
  EXPECT_TRUE(torch::equal(y[3], table[0]));
  y.sum().backward();  // places 0, 1, 2, 3 are met by 3, 2, 2 and 1 rows
  EXPECT_TRUE(torch::equal(table.grad().select(1, 0), torch::tensor({3, 2, 2, 1, 0, 0}, torch::kDouble)));
}

}  // namespace
}  // namespace lra
