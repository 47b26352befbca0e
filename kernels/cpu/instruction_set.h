// By what kernels on the CPU compute here: bits of sums depend on it.
#pragma once

namespace reprise::kernels::simd {

/// "portable", "avx2", "avx512", "avx512bf16", "amx", or the model of one of the last two: as REPRISE_ISA would name it.
const char* instruction_set();

}  // namespace reprise::kernels::simd
