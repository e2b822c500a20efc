// For CPU kernels: files named *_cpu.cpp see raw pointers only and are compiled with -O3 and relaxed floating
// point. A function marked LRA_CPU_CLONES exists for AVX-512, AVX2 and the baseline; the loader picks one, so
// one binary is fast on every machine. Templates it calls are marked LRA_CPU_INLINE, to be compiled along
// with each clone.
#pragma once
#include <cstdint>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define LRA_CPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LRA_CPU_CLONES
#endif
#define LRA_CPU_INLINE __attribute__((always_inline)) inline
