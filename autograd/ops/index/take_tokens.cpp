// Some tokens of each sample: rows of the table of all tokens, whose gradient is summed by buckets, as embedding's is.
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/index/index_checks.h"

namespace reprise {

Tensor take_tokens(const Tensor& x, const Tensor& places) {
  constexpr auto op = "take_tokens";
  autograd::check_given(op, x, places);
  const Tensor index = autograd::as_i64(places);
  check(x.rank() == 3 && index.rank() == 2 && x.size(0) == index.size(0), op,
        ": needs tokens (B, N, D) and an index (B, K), got ", x.shape(), " and ", index.shape());
  check(index.dtype() == DType::i64, op, ": the index must be i64 or i32, got ", index.dtype());
  autograd::check_device(op, x, index);
  const int64_t samples = x.size(0), tokens = x.size(1);
  if (!x.device().is_cuda()) kernels::check_indices(op, index, tokens);
  // The number of each token among those of the batch; on a device gather tells an index outside of its sample.
  Tensor numbers = reshape(arange(samples * tokens, DType::i64, x.device()), {samples, tokens});
  return embedding(reshape(x, {samples * tokens, x.size(2)}), gather(numbers, index));
}

}  // namespace reprise
