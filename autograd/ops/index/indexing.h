// Places in a tensor, as x[{0, Slice(1, {}), ellipsis, mask}] names them: what is there, and tensors with something else there.
#pragma once

#include <concepts>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise {

/// The places begin, begin + step, ... before end of a dimension: Python's begin:end:step. A bound that is left out, {}, is that of
/// the dimension; a negative one counts from the end, and what lies outside is clamped. The step is at least 1.
struct Slice {
  /// `Slice(1, 5)`, `Slice({}, -1)`, `Slice({}, {}, 2)`; `Slice()` is the whole dimension.
  explicit Slice(std::optional<int64_t> first = {}, std::optional<int64_t> last = {}, int64_t by = 1)
      : begin(first), end(last), step(by) {}
  std::optional<int64_t> begin;  ///< the first place
  std::optional<int64_t> end;    ///< the place behind the last
  int64_t step;                  ///< from one place to the next
};

struct Ellipsis {};  ///< what `ellipsis` is
/// As many whole dimensions as the other places leave, Python's `...`; at the end it may be left out.
inline constexpr Ellipsis ellipsis{};
struct NewAxis {};  ///< what `new_axis` is
/// A dimension of size 1 that the tensor has not: NumPy's `newaxis`, Python's None.
inline constexpr NewAxis new_axis{};

/// One item between the brackets: a whole number (negative ones count from the end), a Slice, `ellipsis`, `new_axis`, a mask
/// (bool) of some dimensions, or places (i64 or i32, of any shape; negative ones count from the end).
class Index {
 public:
  using Item = std::variant<int64_t, Slice, Ellipsis, NewAxis, Tensor>;  ///< what it may be
  /// @{
  /// Implicit, so that x[{1, mask}] may be written.
  template <std::integral I>
  requires(!std::same_as<I, bool>) Index(I place) : item_(checked(place)) {}
  Index(const Slice& slice) : item_(slice) {}
  Index(Ellipsis rest) : item_(rest) {}
  Index(NewAxis axis) : item_(axis) {}
  Index(const Tensor& places) : item_(places) {}
  /// @}
  const Item& item() const { return item_; }  ///< which of them it is

 private:
  template <class I>
  static int64_t checked(I place) {
    check(std::in_range<int64_t>(place), "index: ", place, " is no place of any dimension");
    return int64_t(place);
  }
  Item item_;
};

/// x[places], which says the same. Numbers, slices, the ellipsis and new axes give a view. Masks and places give a copy: they broadcast
/// to one shape, which the result has where the first of them stands if they stand side by side, else in front (NumPy's rule; a
/// number is no such place, as in PyTorch). A mask stands for the places where it holds, in row-major order, for which it waits
/// for the device; so does a place without dimensions, which is the number that it holds. Error on a place outside of its dimension:
/// at once on the CPU, else where the host next waits for the device. Gradients of one element that was read several times are
/// added in order.
Tensor index(const Tensor& x, const std::vector<Index>& places);

/// What `x[places]` gives: that tensor, and until its statement ends a name for these places of x, to which one may assign. Each
/// assignment is `index_put_` on x, in place where no graph is recorded and a new value of x where one is (Tensor, "In place").
///
///   x[0] = y;  x[{ellipsis, Slice(1, {})}] += 1;  x[mask] = 0;  x[0][Slice({}, 2)] *= y;  x[rows] += y;  // equal rows once
///
/// `x[rows] += y` is `x[rows] = x[rows] + y`, as in PyTorch and NumPy: of rows that stand there twice the last stays, where
/// `index_put_(rows, y, true)` adds both. A variable, `auto row = x[0]`, is a tensor only: to assign to it gives it another value,
/// and `row += y` is that of every tensor. What a function returns is a Tensor: the places end with x.
class IndexedTensor : public Tensor {
 public:
  /// The variable is a tensor only.
  IndexedTensor(const IndexedTensor& other) : Tensor(other) {}
  /// @{
  /// Gives a variable another value.
  IndexedTensor& operator=(const Tensor& other) &;
  IndexedTensor& operator=(const IndexedTensor& other) &;
  /// @}
  /// @{
  /// Puts values there, which broadcast and are cast to x's dtype. Errors as of `index_put_`, and in `x[places][more] = y` if x[places] is
  /// a copy, since `places` are a mask or places: what is put there would be lost.
  void operator=(const Tensor& values) &&;
  void operator=(const IndexedTensor& values) &&;
  void operator=(double value) &&;
  /// @}
  /// @{
  /// Puts there what `a += b` (autograd/ops/elementwise/assign.h) makes of them, with its errors and those of `=`.
  void operator+=(const Tensor& b) &&;
  void operator-=(const Tensor& b) &&;
  void operator*=(const Tensor& b) &&;
  void operator/=(const Tensor& b) &&;
  void operator+=(double b) &&;
  void operator-=(double b) &&;
  void operator*=(double b) &&;
  void operator/=(double b) &&;
  /// @}
  /// @{
  /// Places among these places.
  IndexedTensor operator[](const Index& place) &&;
  IndexedTensor operator[](std::initializer_list<Index> places) &&;
  IndexedTensor operator[](const Index& place) const& { return Tensor::operator[](place); }
  IndexedTensor operator[](std::initializer_list<Index> places) const& { return Tensor::operator[](places); }
  /// @}

 private:
  friend class Tensor;
  using Path = std::vector<std::vector<Index>>;
  IndexedTensor(const Tensor* x, Path path, const Tensor& value)
      : Tensor(value), x_(x), path_(std::move(path)) {}
  const Tensor& target();
  template <class Values>
  void assign(const Values& values);
  template <class B, class F>
  void change(const char* op, const B& b, const F& f);
  template <class B>
  void add(const char* op, const B& b, double sign);

  const Tensor* x_ = nullptr;  // lives as long as the statement; null in a copy, and in what was assigned
  Path path_;                  // x[path_[0]][path_[1]]...
};

/// Where x is not 0: i64 (K, rank of x), in row-major order. Waits for the device, as their number is not known before.
Tensor nonzero(const Tensor& x);
/// The elements of x, in row-major order, where the mask, bool, holds; both broadcast to one shape: (K). Waits for the device.
Tensor masked_select(const Tensor& x, const Tensor& mask);

/// @{
/// y = x, then y[places] = values, or += with `accumulate`. The values broadcast to the shape of x[places] and are cast to x's dtype.
/// Where several values go to one place, the last in row-major order stays, and it alone has a gradient; `accumulate` adds them in
/// that order.
Tensor index_put(const Tensor& x, const std::vector<Index>& places, const Tensor& values,
                 bool accumulate = false);
Tensor index_put(const Tensor& x, const std::vector<Index>& places, double value, bool accumulate = false);
/// @}
/// y = x, then y[..., begin:end:step, ...] = source along `dim`, by the rules of Slice. Error unless the source has that shape.
Tensor slice_scatter(const Tensor& x, const Tensor& source, int64_t dim = 0,
                     std::optional<int64_t> begin = {}, std::optional<int64_t> end = {}, int64_t step = 1);
/// y = x, then y[..., place, ...] = source along `dim`. Error unless the source has that shape.
Tensor select_scatter(const Tensor& x, const Tensor& source, int64_t dim, int64_t place);

}  // namespace reprise
