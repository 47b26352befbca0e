// The run-time choice of instruction set.
#include "reprise/kernels/cpu/simd.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "reprise/core/error.h"

namespace reprise::kernels::simd {
namespace {

struct Choice {
  Isa isa;
  Tiles tiles;
};

Isa widest_vectors() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::portable;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::avx512 : Isa::avx2;
}

/// Whether the CPU multiplies tiles of bf16, and Linux lends this process the 8 KiB of state that each of its threads
/// needs for them. Linux refuses where a thread has a stack for signals that is too small to keep them.
bool may_use_amx() {
  constexpr unsigned bf16 = 1u << 22, tile = 1u << 24;  // of edx, leaf 7
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (bf16 | tile)) != (bf16 | tile)) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

Choice choose() {
  const Isa best = widest_vectors();
  const char* wish = std::getenv("REPRISE_ISA");
  if (!wish) return {best, best == Isa::avx512 && may_use_amx() ? Tiles::amx : Tiles::none};
  const std::string_view name = wish;
  if (name == "amx-model") return {best, Tiles::model};
  static constexpr std::array<std::string_view, 4> names = {"portable", "avx2", "avx512", "amx"};
  const auto asked = std::find(names.begin(), names.end(), name);
  check(asked != names.end(), "REPRISE_ISA: unknown '", name,
        "'; use portable, avx2, avx512, amx or amx-model");
  const bool amx = name == "amx";
  const Isa isa = amx ? Isa::avx512 : Isa(asked - names.begin());
  check(isa <= best && (!amx || may_use_amx()), "REPRISE_ISA: this CPU has no ", name);
  return {isa, amx ? Tiles::amx : Tiles::none};
}

Choice choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

Isa isa() { return choice().isa; }

Tiles tiles() { return choice().tiles; }

}  // namespace reprise::kernels::simd
