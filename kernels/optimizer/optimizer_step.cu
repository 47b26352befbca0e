// Optimizer steps on CUDA: all tensors of one dtype in one launch (153 at a time). Each element is read and
// written once: AdamW moves 28 bytes per parameter (f32; also bf16 with its master copy), SGD with
// momentum 20. Operations: about 40 per element, a quarter of what a GPU can do meanwhile.
//
// What changes from step to step may lie in device memory (StepNumbers): one thread of each block makes the
// coefficients of its tensor from it, in f64.
#include <cmath>
#include <vector>

#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/cuda/strided.cuh"
#include "reprise/kernels/cuda/tensor_table.cuh"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/optimizer/optimizer_step_checks.h"
#include "reprise/kernels/strided.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;

/// A parameter (states[0]) and what the optimizer keeps with it.
template <int S>
struct StepEntry : TableEntry {
  void* states[S];
  const void* gradient;
  void* rounded;  ///< states[0] in the gradient's dtype; null: not wanted
  double lr, weight_decay;
  const int64_t* updates = nullptr;  ///< so far; null: the launch's numbers know the step
};

/// StepNumbers, and what stands for those that are absent.
struct Numbers {
  const double *lr_factor, *gradient_scale;
  const int64_t* step;
  const int32_t* skip;
  double given_scale;

  __device__ bool is_skipped() const { return skip && *skip != 0; }
  __device__ double lr(double lr) const { return lr_factor ? lr * *lr_factor : lr; }
  __device__ double scale() const { return gradient_scale ? *gradient_scale : given_scale; }
};

Numbers numbers_of(const StepNumbers& numbers, double scale) {
  return {data_of<double>(numbers.lr_factor), data_of<double>(numbers.gradient_scale),
          data_of<int64_t>(numbers.step), data_of<int32_t>(numbers.skip), scale};
}

struct AdamWRuleOptions {
  double beta1, beta2, eps;
  double bias1, bias2;  ///< 1 - beta^step of the step that was given
};

/// 1 - beta^step, by squaring: a power in f64 of the device's library costs ten times as much, in each block.
__host__ __device__ inline double bias_of(double beta, int64_t step) {
  double power = 1;
  for (; step > 0; step /= 2, beta *= beta)
    if (step % 2 == 1) power *= beta;
  return 1 - power;
}

/// m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p = p decay - step_size m / (sqrt(v) root_bias2 + eps)
template <class C>
struct AdamWRule {
  static constexpr const char* name = "adamw";
  static constexpr int states = 3;  // p, m, v
  using Options = AdamWRuleOptions;
  C gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, decay, step_size, root_bias2;

  __device__ static AdamWRule make(const Options& options, const Numbers& numbers, double lr,
                                   double weight_decay, const int64_t* updates) {
    const int64_t step = updates ? *updates + 1 : numbers.step ? *numbers.step : 0;
    const double bias1 = step ? bias_of(options.beta1, step) : options.bias1;
    const double bias2 = step ? bias_of(options.beta2, step) : options.bias2;
    return {C(numbers.scale()),       C(options.beta1),     C(1 - options.beta1),
            C(options.beta2),         C(1 - options.beta2), C(options.eps),
            C(1 - lr * weight_decay), C(lr / bias1),        C(1 / sqrt(bias2))};
  }
  __device__ __forceinline__ void update(C (&x)[states], C g) const {
    auto& [p, m, v] = x;
    g *= gradient_scale;
    m = beta1 * m + one_minus_beta1 * g;
    v = beta2 * v + one_minus_beta2 * g * g;
    p = p * decay - step_size * m / (std::sqrt(v) * root_bias2 + eps);
  }
};

struct SgdRuleOptions {
  double momentum;
  bool nesterov, first_step;
};

/// g = scale g + decay p;  v = momentum v + g (g itself in the first step);  p = p - lr v (nesterov: g +
/// momentum v)
template <class C, bool has_velocity>
struct SgdRule {
  static constexpr const char* name = "sgd";
  static constexpr int states = has_velocity ? 2 : 1;  // p, v
  using Options = SgdRuleOptions;
  C gradient_scale, decay, lr, momentum;
  bool nesterov, first_step;

  __device__ static SgdRule make(const Options& options, const Numbers& numbers, double lr,
                                 double weight_decay, const int64_t*) {
    return {C(numbers.scale()),  C(weight_decay),  C(lr),
            C(options.momentum), options.nesterov, options.first_step};
  }
  __device__ __forceinline__ void update(C (&x)[states], C g) const {
    C& p = x[0];
    g = g * gradient_scale + decay * p;
    if constexpr (has_velocity) {
      C& v = x[1];
      v = first_step ? g : g + momentum * v;
      g = nesterov ? g + momentum * v : v;
    }
    p -= lr * g;
  }
};

/// Updates elements [at, at + N).
template <int N, class C, class E, class Rule>
__device__ __forceinline__ void update_pack(const Rule& rule, C* const (&states)[Rule::states],
                                            const E* gradient, E* rounded, int64_t at) {
  constexpr int S = Rule::states;
  Pack<C, N> packs[S];
#pragma unroll
  for (int s = 0; s < S; ++s) packs[s] = load_pack<N>(states[s] + at);
  const Pack<E, N> g = load_pack<N>(gradient + at);
#pragma unroll
  for (int e = 0; e < N; ++e) {
    C x[S];
#pragma unroll
    for (int s = 0; s < S; ++s) x[s] = packs[s].at[e];
    rule.update(x, to<C>(g.at[e]));
#pragma unroll
    for (int s = 0; s < S; ++s) packs[s].at[e] = x[s];
  }
#pragma unroll
  for (int s = 0; s < S; ++s) store_pack(states[s] + at, packs[s]);
  if (!rounded) return;
  Pack<E, N> low;
#pragma unroll
  for (int e = 0; e < N; ++e) low.at[e] = from<E>(packs[0].at[e]);
  store_pack(rounded + at, low);
}

template <class Rule, class C, class E>
__global__ void __launch_bounds__(block_threads)
    step_kernel(const __grid_constant__ TensorTable<StepEntry<Rule::states>> table,
                typename Rule::Options options, Numbers numbers) {
  constexpr int N = pack_size<C>, S = Rule::states;
  REPRISE_SHARED(Rule, rule_of_block, [1]);
  if (numbers.is_skipped()) return;
  const Piece piece = piece_of_block(table, kOptimizerPiece);
  const auto& entry = table.entries[piece.entry];
  if (threadIdx.x == 0)
    rule_of_block[0] = Rule::make(options, numbers, numbers.lr(entry.lr), entry.weight_decay, entry.updates);
  __syncthreads();
  const Rule rule = rule_of_block[0];
  const E* gradient = static_cast<const E*>(entry.gradient);
  E* rounded = static_cast<E*>(entry.rounded);
  C* states[S];
  bool packed = fits_packs<N>(gradient) && fits_packs<N>(rounded);
#pragma unroll
  for (int s = 0; s < S; ++s) {
    states[s] = static_cast<C*>(entry.states[s]);
    packed = packed && fits_packs<N>(states[s]);
  }
  const int64_t packs_end = packed ? piece.end - piece.end % N : piece.begin;
  for (int64_t i = piece.begin + int64_t(threadIdx.x) * N; i < packs_end; i += block_threads * N)
    update_pack<N>(rule, states, gradient, rounded, i);
  for (int64_t i = packs_end + threadIdx.x; i < piece.end; i += block_threads)
    update_pack<1>(rule, states, gradient, rounded, i);
}

/// One launch for each gradient dtype that `tensors` have; entry_of(tensor) gives (gradient's view, entry).
template <template <class> class RuleOf, class Tensors, class Options, class EntryOf>
void launch_steps(const Stream& stream, const Tensors& tensors, const Options& options,
                  const Numbers& numbers, const EntryOf& entry_of) {
  using Entry = StepEntry<RuleOf<float>::states>;
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    std::vector<Entry> entries;
    for (const auto& tensor : tensors)
      if (tensor.gradient.dtype == dtype) entry_of(tensor, entries);
    dispatch_floating(dtype, "optimizer_step", [&]<class T>() {
      using C = Accumulator<T>;
      using Rule = RuleOf<C>;
      for_each_table<Entry>(entries, kOptimizerPiece, [&](const TensorTable<Entry>& table, int64_t blocks) {
        simt::launch({.name = Rule::name, .grid = unsigned(blocks), .block = block_threads, .stream = stream},
                     step_kernel<Rule, C, Element<T>>, table, options, numbers);
      });
    });
  }
}

void adamw_cuda(const Stream& stream, std::span<const AdamWTensor> tensors, const AdamWOptions& options) {
  check_adamw(tensors, options);
  const AdamWRuleOptions rule{options.beta1, options.beta2, options.eps, bias_of(options.beta1, options.step),
                              bias_of(options.beta2, options.step)};
  launch_steps<AdamWRule>(stream, tensors, rule, numbers_of(options.in_memory, options.gradient_scale),
                          [](const AdamWTensor& t, auto& entries) {
                            entries.push_back({{t.parameter.numel(), 0},
                                               {t.parameter.data, t.first_moment.data, t.second_moment.data},
                                               t.gradient.data,
                                               t.rounded.data,
                                               t.lr,
                                               t.weight_decay,
                                               data_of<int64_t>(t.updates)});
                          });
}

template <class C>
using PlainSgd = SgdRule<C, false>;
template <class C>
using MomentumSgd = SgdRule<C, true>;

void sgd_cuda(const Stream& stream, std::span<const SgdTensor> tensors, const SgdOptions& options) {
  check_sgd(tensors, options);
  const SgdRuleOptions rule{options.momentum, options.nesterov, options.first_step};
  const Numbers numbers = numbers_of(options.in_memory, options.gradient_scale);
  launch_steps<PlainSgd>(stream, tensors, rule, numbers, [](const SgdTensor& t, auto& entries) {
    if (!t.velocity)
      entries.push_back(
          {{t.parameter.numel(), 0}, {t.parameter.data}, t.gradient.data, nullptr, t.lr, t.weight_decay});
  });
  launch_steps<MomentumSgd>(stream, tensors, rule, numbers, [](const SgdTensor& t, auto& entries) {
    if (t.velocity)
      entries.push_back({{t.parameter.numel(), 0},
                         {t.parameter.data, t.velocity.data},
                         t.gradient.data,
                         nullptr,
                         t.lr,
                         t.weight_decay});
  });
}

const OnCuda adamw_on_cuda{adamw, adamw_cuda};
const OnCuda sgd_on_cuda{sgd, sgd_cuda};

}  // namespace
}  // namespace reprise::kernels
