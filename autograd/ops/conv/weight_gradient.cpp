#include "reprise/autograd/ops/conv/weight_gradient.h"

#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/conv/conv2d_add_dweight.h"

namespace reprise::autograd {

Tensor conv_weight_gradient(const Tensor& dy, const Tensor& x, const kernels::Conv2dOptions& options,
                            const Tensor& like, DType dtype, const Edge& to) {
  GraphTask::LeafSum sum;
  if (!is_half(dtype)) sum = GraphTask::sum_at_leaf(to);
  const bool adds = sum.gradient.defined();
  const Tensor dweight = adds ? sum.gradient : Tensor::empty(like.shape(), dtype, like.device());
  const auto& kernel = adds ? kernels::conv2d_add_dweight : kernels::conv2d_dweight;
  kernel(current_stream(x.device()), {.dy = dy, .x = x, .options = options, .dweight = dweight});
  return dweight;
}

}  // namespace reprise::autograd
