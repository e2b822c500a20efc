#include "kernels/rows/wide_copy.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

TEST(WideCopyTest, IsTheSameTensorInOrderWhateverItsLayout) {
  const torch::Tensor x = torch::randn({3, 5, 2, 8});
  for (const auto type : {torch::kBFloat16, torch::kFloat, torch::kDouble}) {
    const torch::Tensor all = x.to(type), narrow = all.narrow(3, 1, 3), turned = all.permute({2, 0, 1, 3});
    for (const torch::Tensor& some : {all, narrow, turned, all.narrow(1, 1, 3), all.transpose(2, 3)}) {
      const torch::Tensor copy = wide_contiguous(some);
      EXPECT_TRUE(copy.is_contiguous());
      EXPECT_TRUE(torch::equal(copy, some));
      const torch::Tensor into = torch::zeros_like(all).narrow(1, 1, 3);
      wide_copy(into, all.narrow(1, 2, 3));
      EXPECT_TRUE(torch::equal(into, all.narrow(1, 2, 3)));
    }
  }
}

TEST(WideCopyTest, TakesWordsWhereThereAreSome) {
  const torch::Tensor x = torch::zeros({4, 6, 8}, torch::kBFloat16);
  EXPECT_EQ(by_words(x.transpose(0, 1)).scalar_type(), torch::kLong);
  EXPECT_EQ(by_words(x.narrow(2, 1, 4)).scalar_type(), torch::kBFloat16);  // begins within a word
  EXPECT_EQ(by_words(x.transpose(1, 2)).scalar_type(), torch::kBFloat16);
}

}  // namespace
}  // namespace lra
