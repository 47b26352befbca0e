// Tensor's operations in place at places along a dimension. Their sources have shapes of their own.
#include "reprise/autograd/ops/index/along_dim.h"

#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/in_place/change.h"

namespace reprise {
namespace {

// f(x), which has the strides that an elementwise operation would give it.
template <class F>
const Tensor& along(const char* op, const Tensor& x, const TensorList& sources, const F& f) {
  autograd::check_self(x, op);
  return autograd::put_value(op, x, sources, [&](const Tensor& self) { return f(self).contiguous(); });
}

}  // namespace

const Tensor& Tensor::cumsum_(int64_t dim) const {
  return along("cumsum_", *this, {}, [&](const Tensor& x) { return cumsum(x, dim); });
}
const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const Tensor& source) const {
  return along("scatter_", *this, {source}, [&](const Tensor& x) { return scatter(x, dim, index, source); });
}
const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, double value) const {
  return along("scatter_", *this, {}, [&](const Tensor& x) { return scatter(x, dim, index, value); });
}
const Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& source) const {
  return along("scatter_add_", *this, {source},
               [&](const Tensor& x) { return scatter_add(x, dim, index, source); });
}
const Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& source) const {
  return along("index_add_", *this, {source},
               [&](const Tensor& x) { return index_add(x, dim, index, source); });
}
const Tensor& Tensor::index_copy_(int64_t dim, const Tensor& index, const Tensor& source) const {
  return along("index_copy_", *this, {source},
               [&](const Tensor& x) { return index_copy(x, dim, index, source); });
}
const Tensor& Tensor::index_fill_(int64_t dim, const Tensor& index, double value) const {
  return along("index_fill_", *this, {}, [&](const Tensor& x) { return index_fill(x, dim, index, value); });
}

}  // namespace reprise
