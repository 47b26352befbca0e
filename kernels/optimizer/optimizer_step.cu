// Optimizer steps on CUDA: all tensors that are stored alike in one launch (153 at a time). Each element is read and
// written once: AdamW moves 28 bytes per parameter (f32; also bf16 with its master copy), SGD with
// momentum 20. Operations: about 40 per element, a quarter of what a GPU can do meanwhile; a number that is rounded at
// random takes 10 more, an eighth of a Philox block.
//
// What changes from step to step may lie in device memory (StepNumbers): one thread of each block makes the
// coefficients of its tensor from it, in f64.
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/cuda/strided.cuh"
#include "reprise/kernels/cuda/tensor_table.cuh"
#include "reprise/kernels/cuda/workspace.h"
#include "reprise/kernels/optimizer/optimizer_step_checks.h"
#include "reprise/kernels/optimizer/rounding.h"
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
  void* beside;  ///< of states[0]: its rounded copy, or its lower half
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
  int64_t step;         ///< that was given
  double bias1, bias2;  ///< 1 - beta^step of it
  uint64_t seed;        ///< of the draws
  int64_t parameters;
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
  DrawSequence draws;

  __device__ static AdamWRule make(const Options& options, const Numbers& numbers,
                                   const StepEntry<3>& entry) {
    const bool in_memory = entry.updates || numbers.step;
    const int64_t step = entry.updates ? *entry.updates + 1 : numbers.step ? *numbers.step : options.step;
    const double bias1 = in_memory ? bias_of(options.beta1, step) : options.bias1;
    const double bias2 = in_memory ? bias_of(options.beta2, step) : options.bias2;
    const double lr = numbers.lr(entry.lr);
    const uint64_t offset = uint64_t(step - 1) * uint64_t(options.parameters) + uint64_t(entry.place);
    return {C(numbers.scale()),   C(options.beta1),      C(1 - options.beta1),           C(options.beta2),
            C(1 - options.beta2), C(options.eps),        C(1 - lr * entry.weight_decay), C(lr / bias1),
            C(1 / sqrt(bias2)),   {options.seed, offset}};
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
  DrawSequence draws{};  // of nothing

  __device__ static SgdRule make(const Options& options, const Numbers& numbers,
                                 const StepEntry<states>& entry) {
    return {C(numbers.scale()),  C(entry.weight_decay), C(numbers.lr(entry.lr)),
            C(options.momentum), options.nesterov,      options.first_step};
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

/// Elements that one access takes of a run of W.
template <int W, class T>
inline constexpr int access_size = W < pack_size<T> ? W : pack_size<T>;

/// W elements from `from` on, in the type they are computed in.
template <int W, class T, class C>
__device__ __forceinline__ void load_run(const T* from, C (&to_)[W]) {
  constexpr int N = access_size<W, T>;
#pragma unroll
  for (int k = 0; k < W; k += N) {
    const Pack<T, N> pack = load_pack<N>(from + k);
#pragma unroll
    for (int e = 0; e < N; ++e) to_[k + e] = to<C>(pack.at[e]);
  }
}
/// Stores W elements; make(e) gives the e-th.
template <int W, class T, class Make>
__device__ __forceinline__ void store_run(T* into, Make&& make) {
  constexpr int N = access_size<W, T>;
#pragma unroll
  for (int k = 0; k < W; k += N) {
    Pack<T, N> pack;
#pragma unroll
    for (int e = 0; e < N; ++e) pack.at[e] = make(k + e);
    store_pack(into + k, pack);
  }
}
template <int W, class T>
__device__ __forceinline__ bool fits_runs(const T* data) {
  return fits_packs<access_size<W, T>>(data);
}

/// Stores W numbers as they are, or rounded at random to bf16; element `at` is the first.
template <int W, class M, class C>
__device__ __forceinline__ void store_rounded(M* into, const C (&x)[W], const DrawSequence& draws,
                                              DrawsOf what, int64_t at) {
  if constexpr (std::is_same_v<M, C>) {
    store_run<W>(into, [&](int e) { return x[e]; });
  } else {
    const auto block = draws.block(what, uint64_t(at));
    store_run<W>(reinterpret_cast<uint16_t*>(into), [&](int e) {
      const uint64_t number = uint64_t(W == 1 ? at % kDrawsInBlock : e);
      return rounded_at_random(__float_as_uint(x[e]), draw_of(block, number));
    });
  }
}

/// A parameter as it is stored: loads and stores W elements from `at` on.
template <class C, Stored S>
struct Parameter {
  using Half = Element<std::conditional_t<S == Stored::f16_copy, Float16, BFloat16>>;
  using T = std::conditional_t<S == Stored::split || S == Stored::random, uint16_t, C>;
  using Beside = std::conditional_t<S == Stored::split, int16_t, Half>;
  static constexpr bool has_beside = S == Stored::split || S == Stored::bf16_copy || S == Stored::f16_copy;
  T* data;
  Beside* beside;

  template <int W>
  __device__ __forceinline__ bool fits() const {
    return fits_runs<W>(data) && (!has_beside || fits_runs<W>(beside));
  }
  template <int W>
  __device__ __forceinline__ void load(int64_t at, C (&p)[W]) const {
    if constexpr (S == Stored::split) {
      uint16_t upper[W];
      int16_t rest[W];
      load_run<W>(data + at, upper);
      load_run<W>(beside + at, rest);
#pragma unroll
      for (int e = 0; e < W; ++e) p[e] = __uint_as_float(joined({upper[e], rest[e]}));
    } else if constexpr (S == Stored::random) {
      uint16_t bits[W];
      load_run<W>(data + at, bits);
#pragma unroll
      for (int e = 0; e < W; ++e) p[e] = __uint_as_float(uint32_t(bits[e]) << 16);
    } else {
      load_run<W>(data + at, p);
    }
  }
  template <int W>
  __device__ __forceinline__ void store(int64_t at, const C (&p)[W], const DrawSequence& draws) const {
    if constexpr (S == Stored::split) {
      store_run<W>(data + at, [&](int e) { return split(__float_as_uint(p[e])).upper; });
      store_run<W>(beside + at, [&](int e) { return split(__float_as_uint(p[e])).rest; });
    } else if constexpr (S == Stored::random) {
      store_rounded<W>(reinterpret_cast<__nv_bfloat16*>(data) + at, p, draws, DrawsOf::parameter, at);
    } else {
      store_run<W>(data + at, [&](int e) { return p[e]; });
      if constexpr (has_beside) store_run<W>(beside + at, [&](int e) { return from<Half>(p[e]); });
    }
  }
};

/// Updates elements [at, at + W). states[0] stands for the parameter.
template <int W, class C, Stored S, class M, class G, class Rule>
__device__ __forceinline__ void update_run(const Rule& rule, const Parameter<C, S>& parameter,
                                           M* const (&states)[Rule::states], const G* gradient, int64_t at) {
  C x[Rule::states][W], g[W];
  parameter.template load<W>(at, x[0]);
  load_run<W>(gradient + at, g);
#pragma unroll
  for (int s = 1; s < Rule::states; ++s) load_run<W>(states[s] + at, x[s]);
#pragma unroll
  for (int e = 0; e < W; ++e) {
    C one[Rule::states];
#pragma unroll
    for (int s = 0; s < Rule::states; ++s) one[s] = x[s][e];
    rule.update(one, g[e]);
#pragma unroll
    for (int s = 0; s < Rule::states; ++s) x[s][e] = one[s];
  }
  parameter.template store<W>(at, x[0], rule.draws);
#pragma unroll
  for (int s = 1; s < Rule::states; ++s) store_rounded<W>(states[s] + at, x[s], rule.draws, DrawsOf(s), at);
}

template <class Rule, class C, Stored S, class M, class G>
__global__ void __launch_bounds__(block_threads)
    step_kernel(const __grid_constant__ TensorTable<StepEntry<Rule::states>> table,
                typename Rule::Options options, Numbers numbers) {
  // Where numbers are rounded at random, a block of draws.
  constexpr int W = S == Stored::random || !std::is_same_v<M, C> ? kDrawsInBlock : pack_size<C>;
  REPRISE_SHARED(Rule, rule_of_block, [1]);
  if (numbers.is_skipped()) return;
  const Piece piece = piece_of_block(table, kOptimizerPiece);
  const auto& entry = table.entries[piece.entry];
  if (threadIdx.x == 0) rule_of_block[0] = Rule::make(options, numbers, entry);
  __syncthreads();
  const Rule rule = rule_of_block[0];
  using P = Parameter<C, S>;
  const P parameter{static_cast<typename P::T*>(entry.states[0]),
                    static_cast<typename P::Beside*>(entry.beside)};
  const G* gradient = static_cast<const G*>(entry.gradient);
  M* states[Rule::states];
  bool packed = fits_runs<W>(gradient) && parameter.template fits<W>();
#pragma unroll
  for (int s = 1; s < Rule::states; ++s) {
    states[s] = static_cast<M*>(entry.states[s]);
    packed = packed && fits_runs<W>(states[s]);
  }
  const int64_t runs_end = packed ? piece.end - piece.end % W : piece.begin;
  for (int64_t i = piece.begin + int64_t(threadIdx.x) * W; i < runs_end; i += block_threads * W)
    update_run<W>(rule, parameter, states, gradient, i);
  for (int64_t i = runs_end + threadIdx.x; i < piece.end; i += block_threads)
    update_run<1>(rule, parameter, states, gradient, i);
}

/// One launch for the tensors of each kind that `tensors` have; kind_of(tensor) tells it, dispatch(tensor, body) calls
/// body<C, S, M, G>() with its types, entry_of(tensor) gives its row of the table.
template <template <class> class RuleOf, class Tensors, class Options, class KindOf, class Dispatch,
          class EntryOf>
void launch_steps(const Stream& stream, const Tensors& tensors, const Options& options,
                  const Numbers& numbers, const KindOf& kind_of, const Dispatch& dispatch,
                  const EntryOf& entry_of) {
  using Entry = StepEntry<RuleOf<float>::states>;
  std::map<decltype(kind_of(tensors[0])), std::vector<size_t>> kinds;
  for (size_t t = 0; t < tensors.size(); ++t) kinds[kind_of(tensors[t])].push_back(t);
  for (const auto& [kind, places] : kinds) {
    std::vector<Entry> entries;
    for (size_t t : places) entries.push_back(entry_of(tensors[t]));
    dispatch(tensors[places[0]], [&]<class C, Stored S, class M, class G>() {
      using Rule = RuleOf<C>;
      for_each_table<Entry>(entries, kOptimizerPiece, [&](const TensorTable<Entry>& table, int64_t blocks) {
        simt::launch({.name = Rule::name, .grid = unsigned(blocks), .block = block_threads, .stream = stream},
                     step_kernel<Rule, C, S, Element<M>, Element<G>>, table, options, numbers);
      });
    });
  }
}

void adamw_cuda(const Stream& stream, std::span<const AdamWTensor> tensors, const AdamWOptions& options) {
  check_adamw(tensors, options);
  const AdamWRuleOptions rule{options.beta1,
                              options.beta2,
                              options.eps,
                              options.step,
                              bias_of(options.beta1, options.step),
                              bias_of(options.beta2, options.step),
                              options.seed,
                              options.parameters};
  launch_steps<AdamWRule>(
      stream, tensors, rule, numbers_of(options.in_memory, options.gradient_scale),
      [](const AdamWTensor& t) { return std::tuple(stored_as(t), t.gradient.dtype, t.first_moment.dtype); },
      [](const AdamWTensor& t, auto&& body) { dispatch_adamw(t, body); },
      [](const AdamWTensor& t) {
        return StepEntry<3>{{t.parameter.numel(), 0, int32_t(t.place)},
                            {t.parameter.data, t.first_moment.data, t.second_moment.data},
                            t.gradient.data,
                            t.remainder ? t.remainder.data : t.rounded.data,
                            t.lr,
                            t.weight_decay,
                            data_of<int64_t>(t.updates)};
      });
}

template <class C>
using PlainSgd = SgdRule<C, false>;
template <class C>
using MomentumSgd = SgdRule<C, true>;

template <template <class> class RuleOf>
void launch_sgd(const Stream& stream, const std::vector<SgdTensor>& tensors, const SgdRuleOptions& rule,
                const Numbers& numbers) {
  launch_steps<RuleOf>(
      stream, tensors, rule, numbers,
      [](const SgdTensor& t) { return std::tuple(stored_as(t), t.gradient.dtype); },
      [](const SgdTensor& t, auto&& body) {
        dispatch_stored("sgd", t, [&]<class C, Stored S, class G>() {
          if constexpr (S != Stored::split && S != Stored::random)  // which check_sgd refuses
            body.template operator()<C, S, C, G>();
        });
      },
      [](const SgdTensor& t) {
        StepEntry<RuleOf<float>::states> entry{{t.parameter.numel(), 0},
                                               {t.parameter.data},
                                               t.gradient.data,
                                               t.rounded.data,
                                               t.lr,
                                               t.weight_decay};
        if constexpr (RuleOf<float>::states == 2) entry.states[1] = t.velocity.data;
        return entry;
      });
}

void sgd_cuda(const Stream& stream, std::span<const SgdTensor> tensors, const SgdOptions& options) {
  check_sgd(tensors, options);
  const SgdRuleOptions rule{options.momentum, options.nesterov, options.first_step};
  const Numbers numbers = numbers_of(options.in_memory, options.gradient_scale);
  std::vector<SgdTensor> plain, running;
  for (const SgdTensor& tensor : tensors) (tensor.velocity ? running : plain).push_back(tensor);
  launch_sgd<PlainSgd>(stream, plain, rule, numbers);
  launch_sgd<MomentumSgd>(stream, running, rule, numbers);
}

const OnCuda adamw_on_cuda{adamw, adamw_cuda};
const OnCuda sgd_on_cuda{sgd, sgd_cuda};

}  // namespace
}  // namespace reprise::kernels
