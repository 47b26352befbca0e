// The tensors inside a value: a tensor, a list, a map, a pair or tuple, an optional, or a struct that says
// what is in it by a function beside it:
//
//   struct Batch { rp::Tensor tokens, mask; int step; };
//   void for_each_tensor(Batch& batch, const auto& visit) {
//     visit(batch.tokens, "tokens");
//     visit(batch.mask, "mask");
//   }
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::recompute {

/// Calls `each(tensor, path)` for every tensor of a value, in order; paths look like "2" or "mask" or
/// "0.mask".
template <class Each>
class TensorVisitor {
 public:
  /// `path` is that of the value; `each` outlives this.
  explicit TensorVisitor(Each& each, std::string path = {}) : each_(each), path_(std::move(path)) {}

  /// For a struct's for_each_tensor: goes on with its member `value`, which paths call `name`.
  template <class T>
  void operator()(T& value, const std::string& name) const {
    TensorVisitor(each_, path_.empty() ? name : path_ + "." + name).visit(value);
  }

  /// Goes through `value`. It does not compile for a struct that does not say what is in it.
  template <class T>
  void visit(T& value) const {
    if constexpr (std::is_base_of_v<Tensor, T>) {
      each_(value, path_);
    } else if constexpr (requires { for_each_tensor(value, *this); }) {
      for_each_tensor(value, *this);
    } else if constexpr (requires { value.size(), value[0], value.push_back(value[0]); } &&
                         !std::is_same_v<T, std::string>) {
      for (size_t i = 0; i < value.size(); ++i) (*this)(value[i], std::to_string(i));
    } else if constexpr (requires { typename T::key_compare; }) {
      for (auto& [key, entry] : value) (*this)(entry, reprise::detail::join(key));
    } else if constexpr (requires { std::tuple_size<T>::value; }) {
      visit_tuple(value, std::make_index_sequence<std::tuple_size_v<T>>());
    } else if constexpr (requires { value.has_value(), *value; }) {
      if (value) visit(*value);
    } else {
      static_assert(
          std::is_scalar_v<T> || std::is_same_v<T, std::string>,
          "checkpoint: say which tensors this struct holds: for_each_tensor(T&, const auto& visit)");
    }
  }

 private:
  template <class T, size_t... I>
  void visit_tuple(T& value, std::index_sequence<I...>) const {
    ((*this)(std::get<I>(value), std::to_string(I)), ...);
  }

  Each& each_;
  std::string path_;
};

/// Moves the tensors out of a value, which keeps its form; `paths`, if given, gets their names.
template <class T>
TensorList take_tensors(T& value, std::vector<std::string>* paths = nullptr) {
  TensorList taken;
  auto take = [&](Tensor& x, const std::string& path) {
    taken.push_back(std::exchange(x, Tensor()));
    if (paths) paths->push_back(path);
  };
  TensorVisitor<decltype(take)>(take).visit(value);
  return taken;
}

/// The inverse of take_tensors.
template <class T>
void put_tensors(T& value, const TensorList& tensors) {
  size_t next = 0;
  auto put = [&](Tensor& x, const std::string&) { x = tensors[next++]; };
  TensorVisitor<decltype(put)>(put).visit(value);
}

}  // namespace reprise::recompute
