// The ways attention is computed by our own CUDA kernels; attention.cu chooses. Arguments are checked, and
// all sizes are below 2^31.
#pragma once

#include "reprise/kernels/attention/problem.h"

namespace reprise::kernels::attention_detail {

/// Head sizes that the tensor-core kernels are made for, up to which they pad: the columns of their tiles.
inline constexpr int64_t tensor_core_head_dim = 128;

/// Tensor cores: bf16 and f16, head_dim up to tensor_core_head_dim, scale > 0. There are queries.
void forward_by_tensor_cores(const Stream& stream, const Problem& problem, const AttentionArguments& views);
/// There are queries or keys.
void backward_by_tensor_cores(const Stream& stream, const Problem& problem,
                              const AttentionBackwardArguments& views);

/// Plain arithmetic: any floating dtype, head size and scale.
void forward_by_threads(const Stream& stream, const Problem& problem, const AttentionArguments& views);
void backward_by_threads(const Stream& stream, const Problem& problem,
                         const AttentionBackwardArguments& views);

/// Calls body.operator()<width>() with the smallest tile width that holds head_dim.
template <class Body>
void dispatch_tile_width(int64_t head_dim, Body&& body) {
  if (head_dim <= 32) return body.template operator()<32>();
  if (head_dim <= 64) return body.template operator()<64>();
  if (head_dim <= 96) return body.template operator()<96>();
  return body.template operator()<128>();
}

}  // namespace reprise::kernels::attention_detail
