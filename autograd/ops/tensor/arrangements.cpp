// Other arrangements of numbers, from views, products and conditions.
#include "reprise/autograd/ops/tensor/arrangements.h"

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/index/along_dim.h"

namespace reprise {
namespace {

// Whether place (i, j) of a matrix has j - i <= diagonal.
Tensor lies_below(const char* op, const Tensor& x, int64_t diagonal) {
  autograd::check_given(op, x);
  check(x.rank() >= 2, op, ": needs matrices (..., M, N), got ", x.shape());
  const Tensor rows = unsqueeze(arange(x.size(-2), DType::i64, x.device()), 1),
               columns = arange(x.size(-1), DType::i64, x.device());
  return less_equal(columns - rows, scalar(double(diagonal), DType::i64, x.device()));
}

Tensor zero_like(const Tensor& x) { return scalar(0, x.dtype(), x.device()); }

}  // namespace

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  autograd::check_given("flatten", x);
  if (x.rank() == 0) return reshape(x, {1});
  const int begin = normalize_dim(first, x.rank(), "flatten"), end = normalize_dim(last, x.rank(), "flatten");
  check(begin <= end, "flatten: dimension ", first, " lies behind dimension ", last, " of ", x.shape());
  Shape shape;
  for (int d = 0; d < x.rank(); ++d)
    if (d <= begin || d > end)
      shape.push_back(x.size(d));
    else
      shape[begin] *= x.size(d);
  return reshape(x, shape);
}

TensorList chunk(const Tensor& x, int64_t chunks, int64_t dim) {
  autograd::check_given("chunk", x);
  check(chunks >= 1, "chunk: needs at least one piece, got ", chunks);
  const int64_t size = x.size(normalize_dim(dim, x.rank(), "chunk"));
  return split(x, std::max<int64_t>(1, (size + chunks - 1) / chunks), dim);
}

Tensor movedim(const Tensor& x, const Dims& from, const Dims& to) {
  constexpr auto op = "movedim";
  autograd::check_given(op, x);
  check(from.size() == to.size(), op, ": dimensions ", from, " to ", to);
  const unsigned moved = dims_mask(from, x.rank(), op);
  dims_mask(to, x.rank(), op);
  Dims order = Dims::filled(x.rank(), -1);
  for (int i = 0; i < from.size(); ++i)
    order[normalize_dim(to[i], x.rank(), op)] = normalize_dim(from[i], x.rank(), op);
  for (int d = 0, place = 0; d < x.rank(); ++d) {
    if (moved >> d & 1) continue;
    while (order[place] >= 0) ++place;
    order[place] = d;
  }
  return permute(x, order);
}
Tensor movedim(const Tensor& x, int64_t from, int64_t to) { return movedim(x, Dims{from}, Dims{to}); }

TensorList unbind(const Tensor& x, int64_t dim) {
  autograd::check_given("unbind", x);
  const int along = normalize_dim(dim, x.rank(), "unbind");
  TensorList slices;
  for (int64_t i = 0; i < x.size(along); ++i) slices.push_back(select(x, along, i));
  return slices;
}

Tensor diagonal(const Tensor& x, int64_t offset, int64_t first, int64_t second) {
  constexpr auto op = "diagonal";
  autograd::check_given(op, x);
  const int a = normalize_dim(first, x.rank(), op), b = normalize_dim(second, x.rank(), op);
  check(a != b, op, ": dimensions ", first, " and ", second, " of ", x.shape(), " are the same");
  const int64_t rows = x.size(a), columns = x.size(b), begin = std::max<int64_t>(0, -offset);
  const int64_t count = std::max<int64_t>(0, std::min(rows, columns - offset) - begin);
  const Tensor last = movedim(x, {a, b}, {-2, -1});  // (..., rows, columns)
  const Tensor places =
      arange(count, DType::i64, x.device()) * double(columns + 1) + double(begin * columns + begin + offset);
  return index_select(flatten(last, -2, -1), -1, places);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  autograd::check_given("outer", a, b);
  check(a.rank() == 1 && b.rank() == 1, "outer: needs vectors, got ", a.shape(), " and ", b.shape());
  return unsqueeze(a, 1) * b;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  autograd::check_given("masked_fill", x, mask);
  broadcast_shapes(x.shape(), mask.shape(), "masked_fill");  // an Error by its own name
  return where(mask, scalar(value, x.dtype(), x.device()), x);
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  return where(lies_below("tril", x, diagonal), x, zero_like(x));
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  return where(lies_below("triu", x, diagonal - 1), zero_like(x), x);
}

}  // namespace reprise
