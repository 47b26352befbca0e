// Optimizer steps on CUDA: all tensors that are stored alike in one launch (154 at a time). Each element is read and
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
#include "reprise/kernels/optimizer/quantized.h"
#include "reprise/kernels/optimizer/rounding.h"
#include "reprise/kernels/optimizer/stored_parameter.cuh"
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
  uint64_t first = 0;                ///< element of its parameter, for the draws
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

/// Of update `step` of an entry's tensor.
template <class Options, class Entry>
__device__ __forceinline__ DrawSequence draws_of(const Options& options, int64_t step, const Entry& entry) {
  const uint64_t offset = uint64_t(step - 1) * uint64_t(options.parameters) + uint64_t(entry.place);
  return {options.seed, offset, entry.first};
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
    return {C(numbers.scale()),
            C(options.beta1),
            C(1 - options.beta1),
            C(options.beta2),
            C(1 - options.beta2),
            C(options.eps),
            C(1 - lr * entry.weight_decay),
            C(lr / bias1),
            C(1 / sqrt(bias2)),
            draws_of(options, step, entry)};
  }
  __device__ __forceinline__ void update(C (&x)[states], C g) const {
    auto& [p, m, v] = x;
    g *= gradient_scale;
    // Written out, since a compiler that fuses may fuse otherwise in a pack than alone: a shard begins anywhere.
    m = std::fma(beta1, m, one_minus_beta1 * g);
    v = std::fma(beta2, v, one_minus_beta2 * g * g);
    p = std::fma(p, decay, -(step_size * m / std::fma(std::sqrt(v), root_bias2, eps)));
  }
};

struct SgdRuleOptions {
  double momentum;
  bool nesterov, first_step;
  int64_t step;   ///< that was given
  uint64_t seed;  ///< of the draws
  int64_t parameters;
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
  DrawSequence draws;

  __device__ static SgdRule make(const Options& options, const Numbers& numbers,
                                 const StepEntry<states>& entry) {
    const int64_t step = numbers.step ? *numbers.step : options.step;
    return {C(numbers.scale()), C(entry.weight_decay), C(numbers.lr(entry.lr)),       C(options.momentum),
            options.nesterov,   options.first_step,    draws_of(options, step, entry)};
  }
  __device__ __forceinline__ void update(C (&x)[states], C g) const {
    C& p = x[0];  // written out, as AdamW's
    g = std::fma(g, gradient_scale, decay * p);
    if constexpr (has_velocity) {
      C& v = x[1];
      v = first_step ? g : std::fma(momentum, v, g);
      g = nesterov ? std::fma(momentum, v, g) : v;
    }
    p = std::fma(-lr, g, p);
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

struct Larger {
  __device__ float operator()(float a, float b) const { return larger(a, b); }
};

/// Of moments in 8 bits: the largest of each block too.
struct QuantizedEntry : StepEntry<3> {
  float* largest[2];
};

/// Moments of one kind of W elements in 8 bits, and the values of their codes.
struct QuantizedRun {
  uint8_t* codes;  ///< of the first element
  float* largest;  ///< of its block
  const float* of_codes;

  __device__ __forceinline__ void load(bool full, int count, float (&x)[kDrawsInBlock]) const {
    constexpr int W = kDrawsInBlock;
    uint8_t own[W] = {};
    if (full) load_run<W>(static_cast<const uint8_t*>(codes), own);
#pragma unroll
    for (int e = 0; e < W; ++e)
      if (!full && e < count) own[e] = codes[e];
    const float scale = *largest;
#pragma unroll
    for (int e = 0; e < W; ++e) x[e] = e < count ? of_codes[own[e]] * scale : 0;
  }
  /// All lanes of a warp, whose elements are a block, store theirs together; element `at` is this one's first.
  __device__ __forceinline__ void store(bool full, int count, const float (&x)[kDrawsInBlock],
                                        const DrawSequence& sequence, DrawsOf what, int64_t at) const {
    constexpr int W = kDrawsInBlock;
    float most = 0;
#pragma unroll
    for (int e = 0; e < W; ++e) most = larger(most, x[e]);
    most = warp_reduce(Larger(), most);
    __syncwarp();  // all have read the old one: shuffles do not order memory
    if (threadIdx.x % warp_threads == 0) *largest = most;
    const DynamicMap map = what == DrawsOf::first_moment ? DynamicMap::with_sign : DynamicMap::positive;
    const auto draws = sequence.block(what, uint64_t(at));
    auto code = [&](int e) {
      return code_at_random(map, of_codes, share_of(x[e], most), draw_of(draws, uint64_t(e)));
    };
    if (full) store_run<W>(codes, code);
#pragma unroll
    for (int e = 0; e < W; ++e)
      if (!full && e < count) codes[e] = code(e);
  }
};

/// AdamW of a lane's W elements from `at` on, of which `count` are there; their block is that of the warp.
template <class C, Stored S, class G>
__device__ __forceinline__ void update_quantized(const AdamWRule<C>& rule, const Parameter<C, S>& parameter,
                                                 const G* gradient, const QuantizedRun (&runs)[2], bool full,
                                                 int count, int64_t at) {
  constexpr int W = kDrawsInBlock;
  C p[W] = {}, g[W] = {}, moments[2][W], one[1];
  if (full) {
    parameter.template load<W>(at, p);
    load_run<W>(gradient + at, g);
  }
#pragma unroll
  for (int e = 0; e < W; ++e) {
    if (full || e >= count) continue;
    parameter.template load<1>(at + e, one);
    p[e] = one[0], g[e] = to<C>(gradient[at + e]);
  }
#pragma unroll
  for (int s = 0; s < 2; ++s) runs[s].load(full, count, moments[s]);
#pragma unroll
  for (int e = 0; e < W; ++e) {
    if (e >= count) continue;
    C x[3] = {p[e], moments[0][e], moments[1][e]};
    rule.update(x, g[e]);
    p[e] = x[0], moments[0][e] = x[1], moments[1][e] = x[2];
  }
  if (full) parameter.template store<W>(at, p, rule.draws);
#pragma unroll
  for (int e = 0; e < W; ++e) {
    if (full || e >= count) continue;
    one[0] = p[e];
    parameter.template store<1>(at + e, one, rule.draws);
  }
#pragma unroll
  for (int s = 0; s < 2; ++s) runs[s].store(full, count, moments[s], rule.draws, DrawsOf(s + 1), at);
}

/// Moments in 8 bits: a warp updates a block of theirs, a lane 8 elements, as many as a block of draws has.
template <class C, Stored S, class G>
__global__ void __launch_bounds__(block_threads)
    quantized_kernel(const __grid_constant__ TensorTable<QuantizedEntry> table, AdamWRuleOptions options,
                     Numbers numbers) {
  constexpr int W = kDrawsInBlock;
  static_assert(W * warp_threads == kQuantizedBlock && kOptimizerPiece % kQuantizedBlock == 0);
  REPRISE_SHARED(AdamWRule<C>, rule_of_block, [1]);
  REPRISE_SHARED(float, of_codes, [2 * 256]);
  if (numbers.is_skipped()) return;
  const Piece piece = piece_of_block(table, kOptimizerPiece);
  const QuantizedEntry& entry = table.entries[piece.entry];
  if (threadIdx.x == 0) rule_of_block[0] = AdamWRule<C>::make(options, numbers, entry);
  for (int i = int(threadIdx.x); i < 512; i += block_threads)
    of_codes[i] = dynamic_value(i < 256 ? DynamicMap::with_sign : DynamicMap::positive, i % 256);
  __syncthreads();
  using P = Parameter<C, S>;
  const P parameter{static_cast<typename P::T*>(entry.states[0]),
                    static_cast<typename P::Beside*>(entry.beside)};
  const G* gradient = static_cast<const G*>(entry.gradient);
  uint8_t* const codes[2] = {static_cast<uint8_t*>(entry.states[1]), static_cast<uint8_t*>(entry.states[2])};
  const bool packed = fits_runs<W>(gradient) && parameter.template fits<W>() && fits_runs<W>(codes[0]) &&
                      fits_runs<W>(codes[1]);
  const int64_t own = int64_t(threadIdx.x) * W;
  for (int64_t begin = piece.begin + own / kQuantizedBlock * kQuantizedBlock; begin < piece.end;
       begin += block_threads * W) {
    const int64_t at = begin + own % kQuantizedBlock, block = begin / kQuantizedBlock;
    const int count = int(max(int64_t(0), min(int64_t(W), piece.end - at)));
    const QuantizedRun runs[2] = {{codes[0] + at, entry.largest[0] + block, of_codes},
                                  {codes[1] + at, entry.largest[1] + block, of_codes + 256}};
    update_quantized<C, S, G>(rule_of_block[0], parameter, gradient, runs, packed && count == W, count, at);
  }
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

template <class StepTensor>
void* beside(const StepTensor& t) {
  return t.remainder ? t.remainder.data : t.rounded.data;
}

StepEntry<3> adamw_entry(const AdamWTensor& t) {
  return {{t.parameter.numel(), 0, int32_t(t.place.parameter)},
          {t.parameter.data, t.first_moment.data, t.second_moment.data},
          t.gradient.data,
          beside(t),
          t.lr,
          t.weight_decay,
          data_of<int64_t>(t.updates),
          uint64_t(t.place.element)};
}

/// Tensors whose moments have 8 bits.
void launch_quantized(const Stream& stream, const std::vector<AdamWTensor>& tensors,
                      const AdamWRuleOptions& rule, const Numbers& numbers) {
  std::map<std::tuple<Stored, DType>, std::vector<const AdamWTensor*>> kinds;
  for (const AdamWTensor& t : tensors) kinds[{stored_as(t), t.gradient.dtype}].push_back(&t);
  for (const auto& [kind, alike] : kinds) {
    std::vector<QuantizedEntry> entries;
    for (const AdamWTensor* t : alike)
      entries.push_back({adamw_entry(*t), {t->first_largest.as<float>(), t->second_largest.as<float>()}});
    dispatch_stored("adamw", *alike[0], [&]<class C, Stored S, class G>() {
      if constexpr (sizeof(C) == 4)  // which check_adamw demands
        for_each_table<QuantizedEntry>(
            entries, kOptimizerPiece, [&](const TensorTable<QuantizedEntry>& table, int64_t blocks) {
              simt::launch(
                  {.name = "adamw", .grid = unsigned(blocks), .block = block_threads, .stream = stream},
                  quantized_kernel<C, S, Element<G>>, table, rule, numbers);
            });
    });
  }
}

void adamw_cuda(const Stream& stream, std::span<const AdamWTensor> given, const AdamWOptions& options) {
  std::vector<AdamWTensor> tensors, quantized;
  for (const AdamWTensor& t : given) (t.first_moment.dtype == DType::u8 ? quantized : tensors).push_back(t);
  check_adamw(given, options);
  const AdamWRuleOptions rule{options.beta1,
                              options.beta2,
                              options.eps,
                              options.step,
                              bias_of(options.beta1, options.step),
                              bias_of(options.beta2, options.step),
                              options.seed,
                              options.parameters};
  const Numbers numbers = numbers_of(options.in_memory, options.gradient_scale);
  launch_quantized(stream, quantized, rule, numbers);
  launch_steps<AdamWRule>(
      stream, tensors, rule, numbers,
      [](const AdamWTensor& t) { return std::tuple(stored_as(t), t.gradient.dtype, t.first_moment.dtype); },
      [](const AdamWTensor& t, auto&& body) {
        dispatch_adamw(t, [&]<class C, Stored S, class M, class G>() {
          if constexpr (!std::is_same_v<M, uint8_t>) body.template operator()<C, S, M, G>();
        });
      },
      adamw_entry);
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
        dispatch_stored("sgd", t,
                        [&]<class C, Stored S, class G>() { body.template operator()<C, S, C, G>(); });
      },
      [](const SgdTensor& t) {
        StepEntry<RuleOf<float>::states> entry{{t.parameter.numel(), 0, int32_t(t.place.parameter)},
                                               {t.parameter.data},
                                               t.gradient.data,
                                               beside(t),
                                               t.lr,
                                               t.weight_decay,
                                               nullptr,
                                               uint64_t(t.place.element)};
        if constexpr (RuleOf<float>::states == 2) entry.states[1] = t.velocity.data;
        return entry;
      });
}

void sgd_cuda(const Stream& stream, std::span<const SgdTensor> tensors, const SgdOptions& options) {
  check_sgd(tensors, options);
  const SgdRuleOptions rule{options.momentum, options.nesterov, options.first_step,
                            options.step,     options.seed,     options.parameters};
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
