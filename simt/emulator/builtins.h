// CUDA's built-in variables. The scheduler sets them whenever it changes threads.
#pragma once

#include <vector_types.h>

inline constinit thread_local uint3 threadIdx{};
inline constinit thread_local uint3 blockIdx{};
inline constinit thread_local dim3 blockDim{};
inline constinit thread_local dim3 gridDim{};
inline constexpr int warpSize = 32;
