// Shared memory: the two macros by which kernels declare it.
#pragma once

#include <algorithm>

#include "reprise/simt/emulator/runtime.h"

namespace reprise::simt {

template <class Array>
Array& shared_array(const void* tag, const char* name, Here here = Here::current()) {
  constexpr size_t alignment = std::max<size_t>(16, alignof(Array));
  return *static_cast<Array*>(shared_static(tag, sizeof(Array), alignment, {name, here}));
}

}  // namespace reprise::simt

// An array of T, as `T name dims`. The tag's address tells the arrays of a block apart.
#define REPRISE_SHARED(T, name, dims)      \
  using name##_shared_type = T dims;       \
  static const char name##_shared_tag = 0; \
  name##_shared_type& name =               \
      ::reprise::simt::shared_array<name##_shared_type>(&name##_shared_tag, "shared array " #name)

#define REPRISE_DYNAMIC_SHARED(name) \
  unsigned char* name = static_cast<unsigned char*>(::reprise::simt::shared_dynamic())

inline size_t __cvta_generic_to_shared(const void* address,
                                       reprise::simt::Here here = reprise::simt::Here::current()) {
  return reprise::simt::shared_offset(address, 1, {"__cvta_generic_to_shared", here});
}
