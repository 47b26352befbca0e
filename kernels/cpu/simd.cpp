// The run-time choice of instruction set.
#include "reprise/kernels/cpu/simd.h"

#include <cstdlib>
#include <string_view>

#include "reprise/core/error.h"

namespace reprise::kernels::simd {
namespace {

Isa detect() {
  __builtin_cpu_init();
  Isa best = Isa::portable;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = Isa::avx2;
  if (best == Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    best = Isa::avx512;
  const char* wish = std::getenv("REPRISE_ISA");
  if (!wish) return best;
  std::string_view name = wish;
  check(name == "portable" || name == "avx2" || name == "avx512", "REPRISE_ISA: unknown '", name,
        "'; use portable, avx2 or avx512");
  Isa asked = name == "avx512" ? Isa::avx512 : name == "avx2" ? Isa::avx2 : Isa::portable;
  check(asked <= best, "REPRISE_ISA: this CPU has no ", name);
  return asked;
}

}  // namespace

Isa isa() {
  static const Isa chosen = detect();
  return chosen;
}

}  // namespace reprise::kernels::simd
