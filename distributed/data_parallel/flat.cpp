#include "reprise/distributed/data_parallel/flat.h"

#include <cstring>

#include "reprise/core/parallel.h"

namespace reprise::distributed {
namespace {

constexpr int64_t grain = 1 << 20;  // bytes copied by one thread at a time

}  // namespace

Tensor flatten(const TensorList& parts, const TensorList& forms, DType dtype) {
  int64_t numel = 0;
  for (const Tensor& form : forms) numel += form.numel();
  for (const Tensor& part : parts) {
    if (!part.defined()) continue;
    check(part.dtype() == dtype && part.device().is_cpu(), "flatten: a gradient is ", part.dtype(), " on ",
          part.device(), ", its bucket ", dtype, " on the CPU; set_grad_dtype comes before DataParallel");
  }
  const Tensor& first = parts.front();
  if (parts.size() == 1 && first.defined() && first.is_contiguous() && first.is_sole_owner())
    return first.reshape({numel});
  MemoryScope scope(MemoryCategory::gradients);
  Tensor flat = Tensor::empty({numel}, dtype);
  char* to = static_cast<char*>(flat.view().data);
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t bytes = forms[i].numel() * int64_t(size_of(dtype));
    const Tensor from = parts[i].defined() ? parts[i].contiguous() : Tensor();
    const char* data = from.defined() ? static_cast<const char*>(from.view().data) : nullptr;
    parallel_for(bytes, grain, [&](int64_t begin, int64_t end) {
      if (data)
        std::memcpy(to + begin, data + begin, size_t(end - begin));
      else
        std::memset(to + begin, 0, size_t(end - begin));
    });
    to += bytes;
  }
  return flat;
}

}  // namespace reprise::distributed
