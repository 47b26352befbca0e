// for_each_view(argument, visit): calls visit(view) for each TensorView in an argument of a kernel, however
// deep in structs and lists it lies. The compiler finds the members of a struct, so none can be forgotten.
#pragma once

#include <ranges>
#include <type_traits>

#include "reprise/core/view.h"

namespace reprise::kernels {

template <class T>
void for_each_view(T& argument, const auto& visit);

namespace members {

// Where it cannot tell the number of members, which a member that is made of anything itself prevents (an
// std::optional), the structured binding below does not compile.

/// Initialises a member of any type: as many as an aggregate takes is the number of its members.
struct Anything {
  template <class T>
  operator T() const;
};
template <class T, class... Members>
constexpr int count() {
  if constexpr (requires { T{Members()..., Anything()}; })
    return count<T, Members..., Anything>();
  else
    return sizeof...(Members);
}

template <class T>
void visit_each(T& x, const auto& visit) {
  constexpr int n = count<std::remove_const_t<T>>();
  static_assert(n > 0 || std::is_empty_v<T>, "for_each_view: Anything does not make the first member");
  static_assert(n <= 12, "for_each_view: add a line for structs of so many members");
  auto each = [&](auto&... members) { (for_each_view(members, visit), ...); };
  // clang-format off
  if constexpr (n == 1) { auto& [a] = x; each(a); }
  if constexpr (n == 2) { auto& [a, b] = x; each(a, b); }
  if constexpr (n == 3) { auto& [a, b, c] = x; each(a, b, c); }
  if constexpr (n == 4) { auto& [a, b, c, d] = x; each(a, b, c, d); }
  if constexpr (n == 5) { auto& [a, b, c, d, e] = x; each(a, b, c, d, e); }
  if constexpr (n == 6) { auto& [a, b, c, d, e, f] = x; each(a, b, c, d, e, f); }
  if constexpr (n == 7) { auto& [a, b, c, d, e, f, g] = x; each(a, b, c, d, e, f, g); }
  if constexpr (n == 8) { auto& [a, b, c, d, e, f, g, h] = x; each(a, b, c, d, e, f, g, h); }
  if constexpr (n == 9) { auto& [a, b, c, d, e, f, g, h, i] = x; each(a, b, c, d, e, f, g, h, i); }
  if constexpr (n == 10) { auto& [a, b, c, d, e, f, g, h, i, j] = x; each(a, b, c, d, e, f, g, h, i, j); }
  if constexpr (n == 11) { auto& [a, b, c, d, e, f, g, h, i, j, k] = x; each(a, b, c, d, e, f, g, h, i, j, k); }
  if constexpr (n == 12) { auto& [a, b, c, d, e, f, g, h, i, j, k, l] = x; each(a, b, c, d, e, f, g, h, i, j, k, l); }
  // clang-format on
}

}  // namespace members

template <class T>
void for_each_view(T& argument, const auto& visit) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, TensorView>) {
    visit(argument);
  } else if constexpr (std::ranges::range<T>) {
    for (auto& element : argument) for_each_view(element, visit);
  } else if constexpr (std::is_class_v<Plain> && std::is_aggregate_v<Plain>) {
    members::visit_each(argument, visit);
  }
}

}  // namespace reprise::kernels
