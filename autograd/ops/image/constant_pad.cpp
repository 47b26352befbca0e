#include "reprise/autograd/ops/image/constant_pad.h"

#include <algorithm>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/tensor/factories.h"
#include "reprise/kernels/elementwise/copy.h"

namespace reprise {
namespace {

struct ConstantPad : autograd::Function<ConstantPad> {
  static constexpr const char* name = "constant_pad";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  Shape from_;
  Dims before_;

  // `before` and `after`: what each dimension gets, none of it negative.
  Tensor forward(const Tensor& x, const Dims& before, const Dims& after, double value) {
    from_ = x.shape();
    before_ = before;
    Shape shape = x.shape();
    for (int d = 0; d < x.rank(); ++d) shape[d] += before[d] + after[d];
    numel_of(shape, name);
    Tensor y = Tensor::empty(shape, x.dtype(), x.device());
    const Stream stream = current_stream(x.device());
    kernels::fill(stream, y, value);
    kernels::copy(stream, x, inner(y.view()));
    return y;
  }
  TensorList backward(const TensorList& dy) { return {inner(dy[0])}; }

 private:
  // What of the result is the argument.
  template <class X>
  X inner(const X& y) const {
    X part = y;
    for (int d = 0; d < from_.size(); ++d)
      if (from_[d] < y.size(d)) part = slice(part, d, before_[d], before_[d] + from_[d]);
    return part;
  }
};

// Which elements stand at the places -first, ..., size + last - 1 of a dimension.
Tensor places_of(Border border, int64_t first, int64_t size, int64_t last, Device device) {
  const Tensor i = arange(-first, size + last, DType::i64, device);
  const double end = double(size - 1), whole = double(size);
  switch (border) {
    case Border::reflect:
      return end - abs(end - abs(i));
    case Border::replicate:
      return clamp(i, 0, end);
    case Border::circular:
      return where(i < 0, i + whole, where(i > end, i - whole, i));
  }
  throw Bug("pad: unknown border");
}

// Calls each(d, first, last) for the borders of each dimension. Error naming `op` unless they fit x.
template <class Each>
void for_each_border(const char* op, const Tensor& x, const std::vector<int64_t>& borders, const Each& each) {
  check(borders.size() % 2 == 0 && borders.size() <= 2 * size_t(x.rank()), op, ": ", borders.size(),
        " borders of a tensor of shape ", x.shape());
  for (size_t i = 0; i < borders.size(); i += 2) {
    const int d = x.rank() - 1 - int(i / 2);
    const int64_t first = borders[i], last = borders[i + 1], size = x.size(d);
    check(first >= -size && last >= -size &&
              std::min<int64_t>(first, 0) + std::min<int64_t>(last, 0) >= -size && first <= max_elements &&
              last <= max_elements,
          op, ": borders of ", first, " and ", last, " do not fit dimension ", d, " of ", x.shape());
    each(d, first, last);
  }
}

}  // namespace

Tensor constant_pad(const Tensor& x, const std::vector<int64_t>& borders, double value) {
  constexpr auto op = "constant_pad";
  autograd::check_given(op, x);
  autograd::element(op, value, x.dtype());
  Tensor rest = x;
  Dims before = Dims::filled(x.rank(), 0), after = before;
  bool grows = false;
  for_each_border(op, x, borders, [&](int d, int64_t first, int64_t last) {
    if (first < 0 || last < 0)
      rest = slice(rest, d, std::max<int64_t>(-first, 0), x.size(d) - std::max<int64_t>(-last, 0));
    before[d] = std::max<int64_t>(first, 0);
    after[d] = std::max<int64_t>(last, 0);
    grows |= first > 0 || last > 0;
  });
  return grows ? ConstantPad::apply(rest, before, after, value) : clone(rest);
}

Tensor pad(const Tensor& x, const std::vector<int64_t>& borders, Border border) {
  constexpr auto op = "pad";
  autograd::check_given(op, x);
  Tensor y = x;
  for_each_border(op, x, borders, [&](int d, int64_t first, int64_t last) {
    const int64_t size = x.size(d), longest = border == Border::reflect     ? size - 1
                                              : border == Border::replicate ? max_elements
                                                                            : size;
    check(std::max(first, last) <= std::max<int64_t>(longest, 0) && (size > 0 || std::max(first, last) <= 0),
          op, ": borders of ", first, " and ", last, " are longer than dimension ", d, " of ", x.shape(),
          " can give");
    if (first != 0 || last != 0) y = index_select(y, d, places_of(border, first, size, last, x.device()));
  });
  return y.is_same(x) ? clone(x) : y;
}

}  // namespace reprise
