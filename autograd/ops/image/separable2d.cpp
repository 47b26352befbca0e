// Separable maps of images. The gradient is the transposed map, so it is differentiable to any order.
#include "reprise/autograd/ops/image/separable2d.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/image/separable2d.h"

namespace reprise::autograd {
namespace {

using kernels::AxisMap;

// An axis map where the kernel runs.
struct DeviceMap {
  Tensor starts, sources, weights;

  DeviceMap(const AxisMap& map, DType dtype, Device device)
      : starts(list(map.starts, device)), sources(list(map.sources, device)) {
    NoGrad guard;
    if (dtype == DType::f64)
      weights = list(map.weights, device);
    else
      weights = list(std::vector<float>(map.weights.begin(), map.weights.end()), device);
  }
  kernels::SparseRows view() const { return {starts.view(), sources.view(), weights.view()}; }

 private:
  template <class T>
  static Tensor list(const std::vector<T>& values, Device device) {
    return Tensor::from(values, {int64_t(values.size())}, device);
  }
};

struct Separable2d : Function<Separable2d> {
  static constexpr const char* name = "separable2d";
  static constexpr OpCost cost = OpCost::pointwise();
  AxisMap rows_, columns_;

  Tensor forward(const Tensor& x, const AxisMap& rows, const AxisMap& columns) {
    rows_ = rows;
    columns_ = columns;
    Tensor y =
        Tensor::empty({x.size(0), x.size(1), rows.outputs(), columns.outputs()}, x.dtype(), x.device());
    const DeviceMap down(rows, statistics_dtype(x), x.device()),
        along(columns, statistics_dtype(x), x.device());
    kernels::separable2d(current_stream(x.device()), x.contiguous().view(), down.view(), along.view(), y);
    return y;
  }
  TensorList backward(const TensorList& dy) {
    return {separable2d(dy[0], rows_.transposed(), columns_.transposed())};
  }
};

}  // namespace

Tensor separable2d(const Tensor& x, const AxisMap& rows, const AxisMap& columns) {
  return Separable2d::apply(x, rows, columns);
}

}  // namespace reprise::autograd
