#include "bench/profile.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

TEST(ProfileTest, KernelNamesLoseParametersButNotTemplateArguments) {
  EXPECT_EQ(
      plain_kernel_name("void lra::(anonymous namespace)::sums_kernel<lra::LinearPlan<true, 64>, false>("
                        "lra::LinearAttentionArguments, lra::FeatureScale, int)"),
      "lra::sums_kernel<lra::LinearPlan<true, 64>, false>");
  EXPECT_EQ(plain_kernel_name("void at::native::f<at::native::g(int)::{lambda(float)#1}>(int, float*)"),
            "at::native::f<at::native::g(int)::{lambda(float)#1}>");
  EXPECT_EQ(plain_kernel_name("Memcpy DtoD"), "Memcpy DtoD");
}

}  // namespace
}  // namespace lra
