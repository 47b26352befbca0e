// Attention on CUDA devices: checks a call and hands it to the chosen backend, or to our own kernels by dtype
// and head size.
#include <limits>

#include "reprise/kernels/attention/backend.h"
#include "reprise/kernels/attention/cuda.h"

namespace reprise::kernels {
namespace attention_detail {
namespace {

/// The kernels count rows and blocks in 32 bits.
void check_sizes(const char* op, const Problem& problem) {
  const int64_t rows = std::max(problem.queries, problem.keys),
                most = std::numeric_limits<int32_t>::max() / 2;
  check(rows <= most && problem.head_dim <= most, op, ": more rows or columns a head than 2^30: ", rows,
        " rows of ", problem.head_dim);
  const int64_t slices = problem.head_dim / 64 + 1, blocks = problem.batch * problem.heads * (rows / 64 + 1);
  check(blocks * slices <= std::numeric_limits<int32_t>::max(), op, ": ", problem.batch, " x ", problem.heads,
        " heads of ", rows, " rows are more than one launch takes");
}

// A scale below zero would turn the maximum of the scores into the minimum.
bool suits_tensor_cores(const Problem& problem, DType dtype) {
  return (dtype == DType::bf16 || dtype == DType::f16) && problem.head_dim > 0 &&
         problem.head_dim <= tensor_core_head_dim && problem.scale > 0;
}

void attention_cuda(const Stream& stream, const AttentionArguments& views) {
  const Problem problem = check_attention("attention", views);
  check_sizes("attention", problem);
  if (problem.batch * problem.heads * problem.queries == 0) return;
  const AttentionBackend backend = first_attention_backend();
  const AttentionFunctions chosen = attention_functions(backend);
  if (chosen.forward && chosen.forward(stream, views))
    return note_attention_backend(AttentionPass::forward, backend);
  note_attention_backend(AttentionPass::forward, AttentionBackend::reprise);
  if (suits_tensor_cores(problem, views.q.dtype))
    forward_by_tensor_cores(stream, problem, views);
  else
    forward_by_threads(stream, problem, views);
}

void attention_backward_cuda(const Stream& stream, const AttentionBackwardArguments& views) {
  const Problem problem = check_attention_backward(views);
  check_sizes("attention_backward", problem);
  const bool has_queries = problem.heads * problem.queries > 0,
             has_keys = problem.kv_heads * problem.keys > 0;
  if (problem.batch * problem.head_dim == 0 || !(has_queries || has_keys)) return;
  const AttentionBackend backend = first_attention_backend();
  const AttentionFunctions chosen = attention_functions(backend);
  if (has_queries && has_keys && chosen.backward && chosen.backward(stream, views))
    return note_attention_backend(AttentionPass::backward, backend);
  note_attention_backend(AttentionPass::backward, AttentionBackend::reprise);
  if (suits_tensor_cores(problem, views.q.dtype))
    backward_by_tensor_cores(stream, problem, views);
  else
    backward_by_threads(stream, problem, views);
}

const OnCuda attention_on_cuda{attention, attention_cuda};
const OnCuda attention_backward_on_cuda{attention_backward, attention_backward_cuda};

}  // namespace
}  // namespace attention_detail
}  // namespace reprise::kernels
