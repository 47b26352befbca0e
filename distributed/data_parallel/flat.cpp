#include "reprise/distributed/data_parallel/flat.h"

#include <numeric>

#include "reprise/autograd/grad_mode.h"

namespace reprise::distributed {

Tensor flatten(const TensorList& parts, const std::vector<int64_t>& numel, DType dtype, Device device,
               const Tensor& into) {
  const int64_t total = std::accumulate(numel.begin(), numel.end(), int64_t(0));
  for (const Tensor& part : parts) {
    if (!part.defined()) continue;
    check(part.dtype() == dtype && part.device() == device, "flatten: a gradient is ", part.dtype(), " on ",
          part.device(), ", its bucket ", dtype, " on ", device,
          "; set_grad_dtype comes before DataParallel, and a model is on one device");
  }
  const Tensor& first = parts.front();
  if (!into.defined() && parts.size() == 1 && first.defined() && first.is_contiguous() &&
      first.is_sole_owner())
    return first.reshape({total});
  NoGrad guard;
  MemoryScope scope(MemoryCategory::gradients);
  Tensor flat = into.defined() ? into : Tensor::empty({total}, dtype, device);
  int64_t begin = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t end = begin + numel[i];
    const Tensor place = flat.slice(0, begin, end);
    if (parts[i].defined())
      place.reshape(parts[i].shape()).copy_(parts[i]);
    else
      place.zero_();
    begin = end;
  }
  return flat;
}

}  // namespace reprise::distributed
