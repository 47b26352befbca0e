#include "reprise/autograd/ops/attention/attention_window.h"

#include <algorithm>
#include <limits>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise::autograd {

bool AttentionWindow::hides(bool causal) const {
  // The last query is S - 1 from the first key, the first one T - 1 from the last key.
  return size > 0 && (keys > size || (!causal && queries > size));
}

Tensor AttentionWindow::matrix(Device device) const {
  const Tensor query = reshape(arange(queries, DType::i64, device), {queries, 1}),
               distance = arange(keys, DType::i64, device) - (query + double(keys - queries));
  return logical_and(distance > double(-size), distance < double(size));
}

KernelMask window_mask(const AttentionWindow& window, const Shape& scores, Device device) {
  const auto [size, queries, keys] = window;
  // Bit n is of the keys that stand n - (S - 1) behind their query.
  const int64_t count = std::max<int64_t>(queries + keys - 1, 1);
  const Tensor bits = Tensor::zeros({count}, DType::boolean, device);
  const int64_t first = std::max<int64_t>(keys - size, 0), end = std::min(keys - 1 + size, count);
  if (first < end) kernels::fill(current_stream(device), slice(bits.view(), 0, first, end), 1);
  TensorView view = bits.view();
  view.data = view.as<bool>() + std::max<int64_t>(queries - 1, 0);
  view.shape = scores;
  view.strides = {0, 0, -1, 1};
  return {bits, view};
}

KernelMask mask_in_window(const Tensor& mask, const AttentionWindow& window, const Shape& scores) {
  const Shape matrix{window.queries, window.keys}, shape = broadcast_shapes(mask.shape(), matrix, "window");
  const KernelMask bits = window_mask(window, scores, mask.device());
  TensorView near = bits.view;
  near.shape = matrix;
  near.strides = {-1, 1};
  const double hidden = mask.dtype() == DType::boolean ? 0 : -std::numeric_limits<double>::infinity();
  const Tensor both = Tensor::empty(shape, mask.dtype(), mask.device()),
               other = scalar(hidden, mask.dtype(), mask.device());
  kernels::where(current_stream(mask.device()), expand(near, shape), expand(mask.view(), shape),
                 expand(other.view(), shape), both);
  return {both, expand(both.view(), scores)};
}

}  // namespace reprise::autograd
