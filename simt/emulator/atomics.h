// Atomic operations. Relaxed, as CUDA's; truly atomic, as blocks run on several OS threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "reprise/simt/emulator/runtime.h"

namespace reprise::simt {

template <size_t bytes>
struct UnsignedOf;
template <>
struct UnsignedOf<2> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = uint64_t;
};

/// Replaces *address by update(*address); what was there before. Threads that wait for each other by atomics
/// let each other run.
template <class T, class Update>
T atomic_update(T* address, Update update) {
  using Bits = typename UnsignedOf<sizeof(T)>::type;
  auto* word = reinterpret_cast<Bits*>(address);
  Bits old_bits = __atomic_load_n(word, __ATOMIC_RELAXED), new_bits = 0;
  T old_value;
  spin();
  do {
    std::memcpy(static_cast<void*>(&old_value), &old_bits, sizeof old_value);
    const T new_value = update(old_value);
    std::memcpy(&new_bits, static_cast<const void*>(&new_value), sizeof new_bits);
  } while (
      !__atomic_compare_exchange_n(word, &old_bits, new_bits, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old_value;
}

template <class T>
using Same = std::type_identity_t<T>;  // the address says the type, the value is converted

}  // namespace reprise::simt

template <class T>
T atomicAdd(T* address, reprise::simt::Same<T> value) {
  return reprise::simt::atomic_update(address, [&](T old) { return T(old + value); });
}
template <class T>
T atomicSub(T* address, reprise::simt::Same<T> value) {
  return reprise::simt::atomic_update(address, [&](T old) { return T(old - value); });
}
template <class T>
T atomicMin(T* address, reprise::simt::Same<T> value) {
  return reprise::simt::atomic_update(address, [&](T old) { return value < old ? value : old; });
}
template <class T>
T atomicMax(T* address, reprise::simt::Same<T> value) {
  return reprise::simt::atomic_update(address, [&](T old) { return old < value ? value : old; });
}
template <class T>
T atomicAnd(T* address, reprise::simt::Same<T> value) {
  return reprise::simt::atomic_update(address, [&](T old) { return T(old & value); });
}
template <class T>
T atomicOr(T* address, reprise::simt::Same<T> value) {
  return reprise::simt::atomic_update(address, [&](T old) { return T(old | value); });
}
template <class T>
T atomicXor(T* address, reprise::simt::Same<T> value) {
  return reprise::simt::atomic_update(address, [&](T old) { return T(old ^ value); });
}
template <class T>
T atomicExch(T* address, reprise::simt::Same<T> value) {
  return reprise::simt::atomic_update(address, [&](T) { return value; });
}
template <class T>
T atomicCAS(T* address, reprise::simt::Same<T> expected, reprise::simt::Same<T> value) {
  return reprise::simt::atomic_update(address, [&](T old) { return old == expected ? value : old; });
}
inline unsigned atomicInc(unsigned* address, unsigned last) {
  return reprise::simt::atomic_update(address, [&](unsigned old) { return old >= last ? 0u : old + 1; });
}
inline unsigned atomicDec(unsigned* address, unsigned last) {
  return reprise::simt::atomic_update(address,
                                      [&](unsigned old) { return old == 0 || old > last ? last : old - 1; });
}
