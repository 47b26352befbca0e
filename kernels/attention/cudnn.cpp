// Attention by cuDNN's fused kernels, the backend `cudnn`: the graph of FlashAttention, forward and backward,
// as cuDNN recognises it. Gradients of q are summed in a fixed order (cuDNN then keeps the gradient of the
// probabilities in its workspace: 2 bytes a score), so results are the same every time.
//
// Takes half types without dropout or a mask whose rows are aligned to 16 bytes; with the causal mask as many queries
// as keys. Everything else is left to our own kernels.
#include <cudnn.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/attention/backend.h"
#include "reprise/kernels/cuda/cudnn_graph.h"
#include "reprise/kernels/cuda/cudnn_library.h"
#include "reprise/kernels/cuda/workspace.h"

namespace reprise::kernels::vendor {
namespace {

using Graph = CudnnGraph;
using Id = Graph::Id;
using Kind = Graph::Kind;
using Mode = Graph::Mode;
using Sum = Graph::Sum;

float scale_of(const auto& x) {
  return float(x.options.scale != 0 ? x.options.scale : 1 / std::sqrt(double(x.q.size(-1))));
}

/// What takes the place of a score that the causal mask hides; cuDNN's older kernels want a finite one.
float hidden_score() {
  return cudnnGetVersion() >= 91000 ? -std::numeric_limits<float>::infinity()
                                    : std::numeric_limits<float>::lowest();
}

bool is_aligned(const TensorView& x) {
  bool aligned = reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && x.stride(-1) == 1;
  for (int dim = 0; dim + 1 < x.rank(); ++dim) aligned = aligned && x.stride(dim) % 8 == 0;
  return aligned;
}

bool takes(const auto& x, std::initializer_list<const TensorView*> views) {
  if (!has_cudnn() || x.mask) return false;
  const TensorView &q = x.q, &k = x.k;
  const AttentionOptions& options = x.options;
  for (const TensorView* view : views)
    if (!is_aligned(*view)) return false;
  return (q.dtype == DType::bf16 || q.dtype == DType::f16) && options.dropout == 0 && q.size(-1) % 8 == 0 &&
         q.size(-1) <= 256 && scale_of(x) > 0 && k.size(2) > 0 && (!options.causal || q.size(2) == k.size(2));
}

/// A graph with the shapes that both directions need.
struct Parts {
  Graph graph;
  Kind half;
  Shape scores, rows;  ///< (B, H, T_q, T_k), (B, H, T_q, 1)
  bool causal;

  Parts(const TensorView& q, const TensorView& k, const AttentionOptions& options)
      : half(q.dtype == DType::bf16 ? Kind::bf16 : Kind::f16),
        scores{q.size(0), q.size(1), q.size(2), k.size(2)},
        rows{q.size(0), q.size(1), q.size(2), 1},
        causal(options.causal) {}

  Id binary(Mode mode, Id a, Id b) {
    const Id y = graph.temporary(scores);
    graph.pointwise(mode, {a, b}, y);
    return y;
  }

  /// x where the query's index is at least the key's.
  Id masked(Id x) {
    if (!causal) return x;
    const Id row = graph.temporary(scores, Kind::i32), column = graph.temporary(scores, Kind::i32);
    const Id seen = graph.temporary(scores, Kind::boolean), y = graph.temporary(scores);
    graph.pointwise(Mode::index, {x}, row, 2);
    graph.pointwise(Mode::index, {x}, column, 3);
    graph.pointwise(Mode::greater_equal, {row, column}, seen);
    graph.pointwise(Mode::select, {x, graph.number(hidden_score()), seen}, y);
    return y;
  }

  /// x (B, H, T_q, T_k), transposed and rounded for a product: (B, H, T_k, T_q).
  Id transposed(Id x) {
    const int64_t queries = scores[2], keys = scores[3], head = queries * keys;
    const Id y =
        graph.temporary({scores[0], scores[1], keys, queries}, half, {scores[1] * head, head, 1, keys});
    graph.reshape(x, y);
    return y;
  }
};

struct Forward : Parts {
  static constexpr const char* name = "forward pass";
  Id q, k, v, out, lse;

  explicit Forward(const AttentionArguments& call)
      : Parts(call.q, call.k, call.options),
        q(graph.memory(call.q)),
        k(graph.memory(transpose(call.k, 2, 3))),  // (B, H_kv, D, T_k)
        v(graph.memory(call.v)),
        out(graph.memory(call.out)),
        lse(graph.memory(as_rows(call.lse))) {
    const Id raw = graph.temporary(scores);
    graph.matmul(q, k, raw);
    const Id x = masked(binary(Mode::mul, raw, graph.number(scale_of(call))));
    const Id largest = graph.temporary(rows), sum = graph.temporary(rows);
    graph.reduce(Sum::max, x, largest);
    const Id difference = binary(Mode::sub, x, largest), exponential = graph.temporary(scores);
    graph.pointwise(Mode::exp, {difference}, exponential);
    graph.reduce(Sum::add, exponential, sum);
    const Id logarithm = graph.temporary(rows);
    graph.pointwise(Mode::log, {sum}, logarithm);
    graph.pointwise(Mode::add, {largest, logarithm}, lse);
    const Id probabilities = graph.temporary(scores, half);
    graph.pointwise(Mode::div, {exponential, sum}, probabilities);
    graph.matmul(probabilities, v, out);
  }

  /// lse (B, H, T_q) as (B, H, T_q, 1).
  static TensorView as_rows(const TensorView& lse) {
    TensorView view = lse;
    view.shape.push_back(1);
    view.strides.push_back(1);
    return view;
  }
};

struct Backward : Parts {
  static constexpr const char* name = "backward pass";
  Id dout, q, k, v, out, lse, dq, dk, dv, row_sums;

  /// With P the probabilities: dV = P^T dO, dS = P (dO V^T - sum(dO O)) scale, dQ = dS K, dK = dS^T Q.
  explicit Backward(const AttentionBackwardArguments& call)
      : Parts(call.q, call.k, call.options),
        dout(graph.memory(call.dout)),
        q(graph.memory(call.q)),
        k(graph.memory(transpose(call.k, 2, 3))),
        v(graph.memory(transpose(call.v, 2, 3))),
        out(graph.memory(call.out)),
        lse(graph.memory(Forward::as_rows(call.lse))),
        dq(graph.memory(call.dq)),
        dk(graph.memory(call.dk)),
        dv(graph.memory(call.dv)),
        row_sums(graph.memory({nullptr, rows, contiguous_strides(rows), DType::f32, call.q.device})) {
    const Id scale = graph.number(scale_of(call));
    sum_rows(call.out.shape);

    const Id raw = graph.temporary(scores), p = graph.temporary(scores);
    graph.matmul(q, k, raw);
    const Id exponent = masked(binary(Mode::sub, binary(Mode::mul, raw, scale), lse));
    graph.pointwise(Mode::exp, {exponent}, p);
    product_of_keys(transposed(p), dout, dv, call.dv);

    const Id dp = graph.temporary(scores);
    graph.matmul(dout, v, dp);
    const Id ds = binary(Mode::mul, binary(Mode::mul, binary(Mode::sub, dp, row_sums), p), scale);
    product_of_keys(transposed(ds), q, dk, call.dk);

    const Id keys = graph.temporary(call.k.shape, half, call.k.strides);
    graph.reshape(k, keys);
    graph.matmul(ds, keys, dq);
  }

 private:
  /// row_sums = sum over D of dO O. The factor is the place of dropout's; cuDNN looks for it.
  void sum_rows(const Shape& shape) {
    const Id product = graph.temporary(shape), sum = graph.temporary(rows);
    graph.pointwise(Mode::mul, {dout, out}, product);
    graph.reduce(Sum::add, product, sum);
    graph.pointwise(Mode::mul, {sum, graph.number(1)}, row_sums);
  }

  /// y = a b, summed over the heads that share a head of keys.
  void product_of_keys(Id a, Id b, Id y, const TensorView& y_view) {
    if (y_view.size(1) == scores[1]) return graph.matmul(a, b, y);
    const Id all = graph.temporary({scores[0], scores[1], scores[3], y_view.size(3)}, half);
    graph.matmul(a, b, all);
    graph.reduce(Sum::add, all, y);
  }
};

/// What a graph depends on: the device, options, and each view's dtype, shape and strides.
std::vector<int64_t> key_of(const Stream& stream, const auto& x) {
  std::vector<int64_t> key{stream.device().index, x.options.causal, std::bit_cast<int32_t>(scale_of(x))};
  for_each_view(x, [&](const TensorView& view) {
    key.push_back(view.data ? int64_t(view.dtype) : -1);
    key.insert(key.end(), view.shape.begin(), view.shape.end());
    key.insert(key.end(), view.strides.begin(), view.strides.end());
  });
  return key;
}

/// The built graph; null if cuDNN does not take it, which is said once a process and direction, since who
/// chose this backend wants to know.
template <class Direction>
std::unique_ptr<Direction> made_graph(const CudnnScope& scope, const auto& arguments) {
  std::string reason = "no deterministic engine takes the graph";
  try {
    auto made = std::make_unique<Direction>(arguments);
    if (made->graph.build(scope)) return made;
  } catch (const CudnnRefusal& refusal) { reason = refusal.what(); }
  static std::once_flag said;
  std::call_once(said, [&] {
    std::fprintf(stderr, "attention: cuDNN refuses its %s, our own kernels run instead: %s\n",
                 Direction::name, reason.c_str());
  });
  return nullptr;
}

/// The built graph for these arguments; null if cuDNN does not take it. Called while the CudnnScope is held.
template <class Direction>
const Direction* graph_of(const CudnnScope& scope, const Stream& stream, const auto& arguments) {
  static auto& known = *new std::map<std::vector<int64_t>, std::unique_ptr<Direction>>;
  const std::vector<int64_t> key = key_of(stream, arguments);
  auto at = known.find(key);
  if (at == known.end()) {
    check(!cuda::is_capturing(stream.handle()), "attention: cuDNN compiles its ", Direction::name, " for q ",
          arguments.q.shape, " and k ", arguments.k.shape,
          " at its first call, which cannot be captured in a graph; run the body once before");
    at = known.emplace(key, made_graph<Direction>(scope, arguments)).first;
  }
  return at->second.get();
}

bool attention_cudnn(const Stream& stream, const AttentionArguments& given) {
  if (!takes(given, {&given.q, &given.k, &given.v, &given.out})) return false;
  // Statistics are written whether they are wanted or not: a graph without them may have another engine, and the first
  // run of a checkpoint, which does not want them, has to have the bits of its replay.
  AttentionArguments x = given;
  std::optional<device::Workspace> unwanted;
  if (!x.lse) {
    const Shape rows{x.q.size(0), x.q.size(1), x.q.size(2)};
    unwanted.emplace(stream, size_t(numel_of(rows)) * sizeof(float));
    x.lse = {unwanted->as<void>(), rows, contiguous_strides(rows), DType::f32, x.q.device};
  }
  CudnnScope scope(stream);
  const Forward* f = graph_of<Forward>(scope, stream, x);
  if (!f) return false;
  device::Workspace workspace(stream, f->graph.workspace_bytes());
  f->graph.run(
      scope,
      {{f->q, x.q.data}, {f->k, x.k.data}, {f->v, x.v.data}, {f->out, x.out.data}, {f->lse, x.lse.data}},
      workspace.as<void>());
  return true;
}

bool attention_backward_cudnn(const Stream& stream, const AttentionBackwardArguments& x) {
  if (!takes(x, {&x.dout, &x.q, &x.k, &x.v, &x.out, &x.dq, &x.dk, &x.dv})) return false;
  CudnnScope scope(stream);
  const Backward* b = graph_of<Backward>(scope, stream, x);
  if (!b) return false;
  device::Workspace workspace(stream, b->graph.workspace_bytes());
  device::Workspace row_sums(stream, size_t(numel_of(b->rows)) * sizeof(float));
  b->graph.run(scope,
               {{b->dout, x.dout.data},
                {b->q, x.q.data},
                {b->k, x.k.data},
                {b->v, x.v.data},
                {b->out, x.out.data},
                {b->lse, x.lse.data},
                {b->dq, x.dq.data},
                {b->dk, x.dk.data},
                {b->dv, x.dv.data},
                {b->row_sums, row_sums.as<void>()}},
               workspace.as<void>());
  return true;
}

const AttentionOnBackend attention_on_cudnn{
    AttentionBackend::cudnn, {.forward = attention_cudnn, .backward = attention_backward_cudnn}};

}  // namespace
}  // namespace reprise::kernels::vendor
