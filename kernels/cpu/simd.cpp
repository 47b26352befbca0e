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
#include "reprise/kernels/cpu/instruction_set.h"

namespace reprise::kernels::simd {
namespace {

struct Choice {
  Isa isa;
  Tiles tiles;
  Bf16Pairs pairs;
};

Isa widest_of_cpu() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return Isa::portable;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::avx512 : Isa::avx2;
}

Isa widest_vectors() {
  for (int isa = int(widest_of_cpu()); isa >= 0; --isa)
    if (is_compiled(Isa(isa))) return Isa(isa);
  fail("simd: this build's instruction set is of ", REPRISE_SIMD_LANES, " floats, which this CPU lacks");
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

bool has_bf16_pairs() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5));
}

/// The first three are those of Isa.
enum class Level { portable, avx2, avx512, avx512bf16, amx };

bool is_there(Level level) {
  const Isa vectors = widest_vectors();
  switch (level) {
    case Level::avx512bf16:
      return vectors == Isa::avx512 && has_bf16_pairs();
    case Level::amx:
      return vectors == Isa::avx512 && may_use_amx();
    default:
      return int(level) <= int(vectors) && is_compiled(Isa(level));
  }
}

/// Whether the CPU multiplies more by pairs than by vectors of f32: twice as much on AMD's, half as much on Intel's, measured
/// in docs/benchmarks.md. The maker decides and never a timing, as bits depend on it.
bool pairs_are_faster() { return !__builtin_cpu_is("intel"); }

/// The fastest that is there.
Level best() {
  if (is_there(Level::amx)) return Level::amx;
  if (is_there(Level::avx512bf16) && pairs_are_faster()) return Level::avx512bf16;
  return Level(widest_vectors());
}

Choice of(Level level) {
  return {Isa(std::min(level, Level::avx512)), level == Level::amx ? Tiles::amx : Tiles::none,
          level == Level::avx512bf16 ? Bf16Pairs::avx512bf16 : Bf16Pairs::none};
}

Choice choose() {
  const char* wish = std::getenv("REPRISE_ISA");
  if (!wish) return of(best());
  const std::string_view name = wish;
  if (name == "amx-model") return {widest_vectors(), Tiles::model, Bf16Pairs::none};
  if (name == "avx512bf16-model") return {widest_vectors(), Tiles::none, Bf16Pairs::model};
  static constexpr std::array<std::string_view, 5> names = {"portable", "avx2", "avx512", "avx512bf16",
                                                            "amx"};
  const auto asked = std::find(names.begin(), names.end(), name);
  check(asked != names.end(), "REPRISE_ISA: unknown '", name,
        "'; use portable, avx2, avx512, avx512bf16, amx, avx512bf16-model or amx-model");
  const Level level = Level(asked - names.begin());
  check(is_there(level), "REPRISE_ISA: this CPU or this build has no ", name);
  return of(level);
}

Choice choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

Isa isa() { return choice().isa; }

// Beyond what a core's caches keep until it is read. On AMD's a step of GPT takes .95 to .97 of the time then
// (docs/benchmarks.md); on Intel's it was not measured.
bool is_best_past_caches(int64_t bytes) {
  static const bool is_faster = __builtin_cpu_is("amd");
  return is_faster && bytes >= 4 << 20;
}

Tiles tiles() { return choice().tiles; }

Bf16Pairs bf16_pairs() { return choice().pairs; }

const char* instruction_set() {
  const Choice chosen = choice();
  if (chosen.tiles != Tiles::none) return chosen.tiles == Tiles::amx ? "amx" : "amx-model";
  if (chosen.pairs != Bf16Pairs::none)
    return chosen.pairs == Bf16Pairs::model ? "avx512bf16-model" : "avx512bf16";
  return chosen.isa == Isa::avx512 ? "avx512" : chosen.isa == Isa::avx2 ? "avx2" : "portable";
}

}  // namespace reprise::kernels::simd
