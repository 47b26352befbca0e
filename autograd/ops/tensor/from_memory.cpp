#include "reprise/autograd/ops/tensor/from_memory.h"

#include "reprise/core/error.h"
#include "reprise/core/no_compute.h"
#include "reprise/kernels/elementwise/copy.h"

namespace reprise {

Tensor from_memory(const void* data, DType dtype, const Shape& shape, const Strides& strides, Device device) {
  const int64_t count = numel_of(shape, "from_memory");
  check(strides.empty() || strides.size() == shape.size(), "from_memory: ", strides.size(), " strides for ",
        shape.size(), " dimensions");
  for (const int64_t stride : strides)
    check(stride >= 0, "from_memory: a stride of ", stride, "; strides are 0 or more");
  check(data || count == 0, "from_memory: the pointer is null, for ", count, " elements");
  Tensor copy = Tensor::empty(shape, dtype);
  if (count == 0 || NoCompute::is_on()) return copy.to(device);
  const TensorView there{const_cast<void*>(data), shape,
                         strides.empty() ? contiguous_strides(shape) : strides, dtype, Device::cpu()};
  kernels::copy(current_stream(Device::cpu()), there, copy.view());
  return copy.to(device);
}

}  // namespace reprise
