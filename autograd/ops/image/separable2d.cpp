// Separable maps of images. The gradient is the transposed map, so it is differentiable to any order.
#include "reprise/autograd/ops/image/separable2d.h"

#include <utility>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/image/separable2d.h"

namespace reprise::autograd {
namespace {

using kernels::AxisMap;

// Both maps where the kernel runs: two copies to the device, not one for each list.
struct DeviceMaps {
  Tensor places, weights;
  kernels::SparseRows rows, columns;

  DeviceMaps(const AxisMap& down, const AxisMap& along, DType dtype, Device device) {
    NoGrad guard;
    places = list(joined({&down.starts, &down.sources, &along.starts, &along.sources}), device);
    const std::vector<double> all = joined({&down.weights, &along.weights});
    weights =
        dtype == DType::f64 ? list(all, device) : list(std::vector<float>(all.begin(), all.end()), device);
    int64_t place = 0, weight = 0;
    for (auto [map, view] : {std::pair(&down, &rows), {&along, &columns}}) {
      view->starts = next(places, place, map->starts.size());
      view->sources = next(places, place, map->sources.size());
      view->weights = next(weights, weight, map->weights.size());
    }
  }

 private:
  template <class T>
  static std::vector<T> joined(std::initializer_list<const std::vector<T>*> lists) {
    std::vector<T> all;
    for (const auto* values : lists) all.insert(all.end(), values->begin(), values->end());
    return all;
  }
  template <class T>
  static Tensor list(const std::vector<T>& values, Device device) {
    return Tensor::from(values, {int64_t(values.size())}, device);
  }
  static TensorView next(const Tensor& all, int64_t& at, size_t count) {
    const int64_t begin = std::exchange(at, at + int64_t(count));
    return all.slice(0, begin, at).view();
  }
};

struct Separable2d : Function<Separable2d> {
  static constexpr const char* name = "separable2d";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::pointwise();
  AxisMap rows_, columns_;
  DType of_x_ = DType::f32;

  Tensor forward(const Tensor& x, const AxisMap& rows, const AxisMap& columns, DType out) {
    of_x_ = x.dtype();
    rows_ = rows;
    columns_ = columns;
    Tensor y = Tensor::empty({x.size(0), x.size(1), rows.outputs(), columns.outputs()}, out, x.device());
    const DeviceMaps maps(rows, columns, statistics_dtype(x), x.device());
    kernels::separable2d(current_stream(x.device()), x.contiguous().view(), maps.rows, maps.columns, y);
    return y;
  }
  TensorList backward(const TensorList& dy) {
    return {separable2d(dy[0], rows_.transposed(), columns_.transposed(), gradient_dtype(0, of_x_))};
  }
};

}  // namespace

Tensor separable2d(const Tensor& x, const AxisMap& rows, const AxisMap& columns, std::optional<DType> out) {
  return Separable2d::apply(x, rows, columns, out.value_or(x.dtype()));
}

}  // namespace reprise::autograd
