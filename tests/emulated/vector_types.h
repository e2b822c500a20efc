// CUDA's small vectors.
#pragma once

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1) : x(across), y(down), z(deep) {}
};

#define LRA_VECTORS(T, name, two, four)                      \
  struct alignas(2 * sizeof(T)) name##2 {                    \
    T x, y;                                                  \
  };                                                         \
  struct alignas(four) name##4 {                             \
    T x, y, z, w;                                            \
  };                                                         \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

LRA_VECTORS(int, int, 8, 16)
LRA_VECTORS(unsigned, uint, 8, 16)
LRA_VECTORS(float, float, 8, 16)
LRA_VECTORS(double, double, 16, 16)
#undef LRA_VECTORS
