// Vectors in memory, at any address.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace reprise::kernels::simd::detail {

/// Not memcpy: for some CPUs (-march=skylake-avx512) g++ copies in 32-byte pieces, through the stack.
template <class V>
struct [[gnu::packed, gnu::may_alias]] Unaligned {
  V value;
};

// AddressSanitizer calls its library for each of these, which took seven tenths of the time of its tests. So vectors
// move in pieces of 16 bytes, by an instruction that it does not see, after a byte of each piece and the last one have
// been touched: 16 bytes are the least that lies between two allocations.
#if defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)
template <class V>
inline constexpr int kLanes = sizeof(V) / sizeof(V{}[0]);

template <class V>
struct HalfOf {
  typedef std::remove_cvref_t<decltype(V{}[0])> type __attribute__((vector_size(sizeof(V) / 2)));
};
template <class V>
using Half = typename HalfOf<V>::type;

template <class Half, int... I>
[[gnu::always_inline]] inline auto join(Half low, Half high, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(low, high, I...);
}

template <int first, class V, int... I>
[[gnu::always_inline]] inline auto half(V v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, (first + I)...);
}

template <class V>
[[gnu::always_inline]] inline V read_unseen(const Unaligned<V>* from) {
  if constexpr (sizeof(V) > 16) {
    const auto* halves = reinterpret_cast<const Unaligned<Half<V>>*>(from);
    return join(read_unseen(halves), read_unseen(halves + 1), std::make_integer_sequence<int, kLanes<V>>());
  } else {
    V value;
    asm("movups %1, %0" : "=x"(value) : "m"(*from));
    return value;
  }
}

template <class V>
[[gnu::always_inline]] inline void write_unseen(Unaligned<V>* to, V value) {
  if constexpr (sizeof(V) > 16) {
    using Indices = std::make_integer_sequence<int, kLanes<V> / 2>;
    auto* halves = reinterpret_cast<Unaligned<Half<V>>*>(to);
    write_unseen<Half<V>>(halves, half<0>(value, Indices()));
    write_unseen<Half<V>>(halves + 1, half<kLanes<V> / 2>(value, Indices()));
  } else {
    asm("movups %1, %0" : "=m"(*to) : "x"(value));
  }
}

template <class V>
[[gnu::always_inline]] inline V read(const Unaligned<V>* from) {
  if constexpr (sizeof(V) < 16) {
    return from->value;
  } else {
    const auto* bytes = reinterpret_cast<const volatile char*>(from);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < sizeof(V); i += 16) static_cast<void>(bytes[i]);
    static_cast<void>(bytes[sizeof(V) - 1]);
    return read_unseen(from);
  }
}

template <class V>
[[gnu::always_inline]] inline void write(Unaligned<V>* to, V value) {
  if constexpr (sizeof(V) < 16) {
    to->value = value;
  } else {
    auto* bytes = reinterpret_cast<volatile char*>(to);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < sizeof(V); i += 16) bytes[i] = 0;
    bytes[sizeof(V) - 1] = 0;
    write_unseen(to, value);
  }
}
#else
template <class V>
[[gnu::always_inline]] inline V read(const Unaligned<V>* from) {
  return from->value;
}

template <class V>
[[gnu::always_inline]] inline void write(Unaligned<V>* to, V value) {
  to->value = value;
}
#endif

// Past the caches, to an address that is a multiple of the vector's size, 32 or 64 bytes. Sanitizers would not see it.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
template <class V>
[[gnu::always_inline]] inline void write_past_caches(Unaligned<V>* to, V value) {
  asm("vmovntps %1, %0" : "=m"(*to) : "v"(value));
}
#else
template <class V>
[[gnu::always_inline]] inline void write_past_caches(Unaligned<V>* to, V value) {
  write(to, value);
}
#endif

}  // namespace reprise::kernels::simd::detail
