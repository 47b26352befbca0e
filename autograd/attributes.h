// Attributes: what an operation is given beside tensors, as a hash. A checkpoint's replay compares it with
// the first run's: another scalar, dimension, probability or flag makes another result.
#pragma once

#include <bit>
#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "reprise/core/hash.h"
#include "reprise/core/random.h"
#include "reprise/core/shape.h"

namespace reprise::autograd {

/// What an operation is given beside tensors, as two hashes: equal arguments have equal ones. A checkpoint compares those of
/// its two runs.
struct Attributes {
  uint64_t values = 0;  ///< of numbers, flags, enums, sizes and texts
  uint64_t draws = 0;   ///< of positions in streams of random numbers
};

/// Adds up the arguments of a call. A struct says what is in it by a function beside it,
///   void for_each_attribute(const Options& options, const auto& visit) { visit(options.scale); }
/// Of what it does not know, pointers and tensors say, it takes nothing.
class AttributeHash {
 public:
  explicit AttributeHash(Attributes& sum) : sum_(sum) {}  ///< adds to `sum`, which outlives it
  /// @{
  /// Adds x: a number, flag, enum, size, text, position of a generator, or a struct with a `for_each_attribute`; of an
  /// optional whether it has a value, and that; of a list its length and what is in it.
  template <class T>
  void operator()(const T& x) const {
    if constexpr (std::is_floating_point_v<T>)
      add(std::bit_cast<uint64_t>(double(x)));
    else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
      add(uint64_t(x));
    else if constexpr (std::is_same_v<T, Generator::State>)
      sum_.draws = mix(mix(sum_.draws, x.seed), x.offset);
    else if constexpr (requires { for_each_attribute(x, *this); })
      for_each_attribute(x, *this);
    else if constexpr (std::is_convertible_v<const T&, std::string_view> &&
                       (std::is_class_v<T> || std::is_array_v<T>))
      add_all(std::string_view(x));
    else if constexpr (std::is_same_v<T, Dims>)
      add_all(x);
  }
  template <class T>
  void operator()(const std::optional<T>& x) const {
    add(x.has_value());
    if (x) (*this)(*x);
  }
  template <class T>
  void operator()(const std::vector<T>& list) const {
    add_all(list);
  }
  /// @}

 private:
  void add(uint64_t value) const { sum_.values = mix(sum_.values, value); }
  template <class List>
  void add_all(const List& list) const {
    add(uint64_t(list.end() - list.begin()));
    for (const auto& item : list) (*this)(item);
  }

  Attributes& sum_;
};

/// Those of a call with these arguments, in their order.
template <class... Args>
Attributes attributes_of(const Args&... args) {
  Attributes sum;
  (AttributeHash(sum)(args), ...);
  return sum;
}

}  // namespace reprise::autograd
