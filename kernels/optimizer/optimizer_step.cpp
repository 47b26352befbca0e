// Optimizer steps on the CPU, bound by memory: AdamW moves 28 bytes per parameter (f32; also bf16 with
// its master copy), SGD with momentum 20; draws cost a Philox block for each eight numbers that are rounded at random.
// The tensors are cut into pieces of one size, and the pieces of all tensors are the tasks of one loop.
#include "reprise/kernels/optimizer/optimizer_step.h"

#include <cmath>
#include <vector>

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/cpu/simd_random.h"
#include "reprise/kernels/optimizer/optimizer_step_checks.h"
#include "reprise/kernels/optimizer/pieces.h"
#include "reprise/kernels/optimizer/quantized.h"
#include "reprise/kernels/optimizer/rounding.h"
#include "reprise/kernels/strided.h"

namespace reprise::kernels {
namespace {

template <class V>
[[gnu::always_inline]] inline V square_root(V x) {
  for (size_t i = 0; i < sizeof(V) / sizeof(x[0]); ++i) x[i] = std::sqrt(x[i]);
  return x;
}

double lr_of(double lr, const StepNumbers& numbers) {
  return numbers.lr_factor ? lr * *numbers.lr_factor.as<double>() : lr;
}

int64_t step_of(const AdamWTensor& tensor, const AdamWOptions& options) {
  return tensor.updates ? *tensor.updates.as<int64_t>() + 1 : options.step;
}

/// Coefficients of one tensor's update in the type it is computed in.
template <class C>
struct AdamWStep {
  C beta1, beta2, eps, gradient_scale, decay, step_size, root_bias2;

  AdamWStep(const AdamWTensor& tensor, const AdamWOptions& options, int64_t step)
      : beta1(C(options.beta1)),
        beta2(C(options.beta2)),
        eps(C(options.eps)),
        gradient_scale(C(options.gradient_scale)),
        decay(C(1 - lr_of(tensor.lr, options.in_memory) * tensor.weight_decay)),
        step_size(C(lr_of(tensor.lr, options.in_memory) / (1 - std::pow(options.beta1, double(step))))),
        root_bias2(C(1 / std::sqrt(1 - std::pow(options.beta2, double(step))))),
        one_minus_beta1_(C(1 - options.beta1)),
        one_minus_beta2_(C(1 - options.beta2)) {}

  template <class V>
  [[gnu::always_inline]] void update(V& p, V g, V& m, V& v) const {
    g *= gradient_scale;
    m = beta1 * m + one_minus_beta1_ * g;
    v = beta2 * v + one_minus_beta2_ * g * g;
    p = p * decay - step_size * m / (square_root(v) * root_bias2 + eps);
  }

 private:
  C one_minus_beta1_, one_minus_beta2_;
};

/// Of the update of a tensor, the optimizer's or its own one of this number.
template <class Options>
DrawSequence draws_of(const DrawPlace& place, const Options& options, int64_t step) {
  return {options.seed, uint64_t(step - 1) * uint64_t(options.parameters) + uint64_t(place.parameter),
          uint64_t(place.element)};
}

/// The draws of 8 W elements of each of a step's numbers, where it rounds at random.
template <int W>
struct Draws {
  static constexpr int elements = W * kDrawsInBlock;
  DrawSequence sequence;
  uint32_t words[3][4 * W];  // little-endian: as 16-bit numbers they are in the order of elements

  [[gnu::always_inline]] void make(DrawsOf what, int64_t element) {
    simd::Vector<uint32_t, W> four[4];
    simd::philox_draws<W>(sequence.seed, sequence.offset, sequence.block_of(what, uint64_t(element)), four);
    for (int k = 0; k < 4; ++k) simd::store(words[size_t(what)] + k * W, four[k]);
  }
  [[gnu::always_inline]] uint32_t at(DrawsOf what, int64_t i) const {
    return words[size_t(what)][i / 2] >> (16 * (i % 2)) & 0xffffu;
  }
};

/// Stores numbers that element `at` of the draws begins, rounded at random to bf16, or as they are.
template <int L, class C, class M, class D>
[[gnu::always_inline]] inline void store_rounded(M* to, simd::Vector<C, L> value, int64_t left,
                                                 const D& draws, DrawsOf what, int64_t at) {
  if constexpr (std::is_same_v<C, M>) {
    simd::store_row<C, L>(to, value, left);
  } else {
    uint32_t bits[size_t(L)];
    simd::store(bits, simd::Vector<uint32_t, L>(value));
    for (int k = 0; k < L && k < left; ++k) to[k].bits = rounded_at_random(bits[k], draws.at(what, at + k));
  }
}

/// A parameter as it is stored; `beside` is its rounded copy or its lower half.
template <class C, Stored S>
struct Parameter {
  using Half = std::conditional_t<S == Stored::f16_copy, Float16, BFloat16>;
  void *data, *beside;

  template <class StepTensor>
  static Parameter of(const StepTensor& t) {
    return {t.parameter.data, S == Stored::split ? t.remainder.data : t.rounded.data};
  }
  C* wide() const { return static_cast<C*>(data); }
  BFloat16* upper() const { return static_cast<BFloat16*>(data); }
  int16_t* rest() const { return static_cast<int16_t*>(beside); }

  template <int L>
  [[gnu::always_inline]] simd::Vector<C, L> load(int64_t i, int64_t left) const {
    if constexpr (S == Stored::random) {
      return simd::load_row<C, L>(upper() + i, left);
    } else if constexpr (S == Stored::split) {
      uint32_t bits[size_t(L)] = {};
      for (int k = 0; k < L && k < left; ++k) bits[k] = joined({upper()[i + k].bits, rest()[i + k]});
      return simd::Vector<C, L>(simd::load<simd::Vector<uint32_t, L>>(bits));
    } else {
      return simd::load_row<C, L>(wide() + i, left);
    }
  }
  template <int L, class D>
  [[gnu::always_inline]] void store(int64_t i, simd::Vector<C, L> p, int64_t left, const D& draws,
                                    int64_t at) const {
    if constexpr (S == Stored::random) {
      store_rounded<L, C>(upper() + i, p, left, draws, DrawsOf::parameter, at);
    } else if constexpr (S == Stored::split) {
      uint32_t bits[size_t(L)];
      simd::store(bits, simd::Vector<uint32_t, L>(p));
      for (int k = 0; k < L && k < left; ++k) {
        const SplitFloat halves = split(bits[k]);
        upper()[i + k].bits = halves.upper;
        rest()[i + k] = halves.rest;
      }
    } else {
      simd::store_row<C, L>(wide() + i, p, left);
      if constexpr (S != Stored::plain) simd::store_row<C, L>(static_cast<Half*>(beside) + i, p, left);
    }
  }
};

/// Moments of elements from `begin` on.
template <class M>
struct Moments {
  M *first, *second;
  int64_t begin = 0;
};

/// Updates elements [begin, end), which lie within the draws of one Draws from `begin` on.
template <int W, class C, Stored S, class M, class G>
[[gnu::always_inline]] inline void update_run(const AdamWStep<C>& step, const Parameter<C, S>& parameter,
                                              const Moments<M>& moments, const G* gradient, Draws<W>& draws,
                                              int64_t begin, int64_t end) {
  constexpr int L = simd::lanes_of<C, W>;
  if constexpr (S == Stored::random) draws.make(DrawsOf::parameter, begin);
  if constexpr (!std::is_same_v<C, M>)
    draws.make(DrawsOf::first_moment, begin), draws.make(DrawsOf::second_moment, begin);
  M *first = moments.first + (begin - moments.begin), *second = moments.second + (begin - moments.begin);
  for_each_vector<L>(end - begin, [&](int64_t at, int64_t left) {
    const int64_t i = begin + at;
    auto p = parameter.template load<L>(i, left), g = simd::load_row<C, L>(gradient + i, left);
    auto m = simd::load_row<C, L>(first + at, left), v = simd::load_row<C, L>(second + at, left);
    step.update(p, g, m, v);
    parameter.template store<L>(i, p, left, draws, at);
    store_rounded<L, C>(first + at, m, left, draws, DrawsOf::first_moment, at);
    store_rounded<L, C>(second + at, v, left, draws, DrawsOf::second_moment, at);
  });
}

/// Moments of one kind in 8 bits, from element `begin` of a tensor on.
struct Quantized {
  DynamicMap map;
  DrawsOf draws_of;
  uint8_t* codes;
  float* largest;

  Quantized(DynamicMap map_, DrawsOf draws, const TensorView& moment, const TensorView& of_blocks)
      : map(map_), draws_of(draws), codes(moment.as<uint8_t>()), largest(of_blocks.as<float>()) {}

  const float* values() const {
    static constexpr DynamicValues with_sign = dynamic_values(DynamicMap::with_sign),
                                   positive = dynamic_values(DynamicMap::positive);
    return (map == DynamicMap::with_sign ? with_sign : positive).data();
  }
  /// The block of element `begin`.
  [[gnu::always_inline]] void load(float* to, int64_t begin, int64_t end) const {
    const float scale = largest[begin / kQuantizedBlock];
    const float* of_code = values();
    for (int64_t i = begin; i < end; ++i) to[i - begin] = of_code[codes[i]] * scale;
  }
  template <int W>
  [[gnu::always_inline]] void store(const float* from, Draws<W>& draws, int64_t begin, int64_t end) const {
    float most = 0;
    for (int64_t i = 0; i < end - begin; ++i) most = larger(most, from[i]);
    largest[begin / kQuantizedBlock] = most;
    const float* of_code = values();
    for (int64_t base = begin; base < end; base += draws.elements) {
      draws.make(draws_of, base);
      const int64_t count = std::min<int64_t>(draws.elements, end - base);
      for (int64_t i = 0; i < count; ++i)
        codes[base + i] =
            code_at_random(map, of_code, share_of(from[base - begin + i], most), draws.at(draws_of, i));
    }
  }
};

template <class C, Stored S, class M, class G>
void adamw_piece(const AdamWTensor& tensor, const AdamWOptions& options, int64_t begin, int64_t end) {
  const int64_t count = step_of(tensor, options);
  const AdamWStep<C> step(tensor, options, count);
  const auto parameter = Parameter<C, S>::of(tensor);
  const G* gradient = static_cast<const G*>(tensor.gradient.data);
  const DrawSequence sequence = draws_of(tensor.place, options, count);
  simd::run([&]<int W>() {
    Draws<W> draws{sequence, {}};
    if constexpr (std::is_same_v<M, uint8_t>) {
      const Quantized first(DynamicMap::with_sign, DrawsOf::first_moment, tensor.first_moment,
                            tensor.first_largest);
      const Quantized second(DynamicMap::positive, DrawsOf::second_moment, tensor.second_moment,
                             tensor.second_largest);
      static_assert(kQuantizedBlock % draws.elements == 0 && kPiece % kQuantizedBlock == 0);
      for (int64_t block = begin; block < end; block += kQuantizedBlock) {
        const int64_t after = std::min<int64_t>(end, block + kQuantizedBlock);
        C m[kQuantizedBlock], v[kQuantizedBlock];
        first.load(m, block, after), second.load(v, block, after);
        for (int64_t base = block; base < after; base += draws.elements)
          update_run<W, C, S, C, G>(step, parameter, {m, v, block}, gradient, draws, base,
                                    std::min<int64_t>(after, base + draws.elements));
        first.store(m, draws, block, after), second.store(v, draws, block, after);
      }
    } else {
      const Moments<M> moments{static_cast<M*>(tensor.first_moment.data),
                               static_cast<M*>(tensor.second_moment.data)};
      for (int64_t base = begin; base < end; base += draws.elements)
        update_run<W, C, S, M, G>(step, parameter, moments, gradient, draws, base,
                                  std::min<int64_t>(end, base + draws.elements));
    }
  });
}

template <class C, Stored S, class G>
void sgd_piece(const SgdTensor& tensor, const SgdOptions& options, int64_t begin, int64_t end) {
  C scale = C(options.gradient_scale), decay = C(tensor.weight_decay);
  C lr = C(lr_of(tensor.lr, options.in_memory));
  C momentum = C(options.momentum);
  const auto parameter = Parameter<C, S>::of(tensor);
  C* velocity = static_cast<C*>(tensor.velocity.data);
  const G* gradient = static_cast<const G*>(tensor.gradient.data);
  simd::run([&]<int W>() {
    constexpr int L = simd::lanes_of<C, W>;
    Draws<W> draws{draws_of(tensor.place, options, options.step), {}};
    for (int64_t base = begin; base < end; base += draws.elements) {
      if constexpr (S == Stored::random) draws.make(DrawsOf::parameter, base);
      for_each_vector<L>(std::min<int64_t>(end - base, draws.elements), [&](int64_t at, int64_t left) {
        const int64_t i = base + at;
        auto p = parameter.template load<L>(i, left);
        auto g = simd::load_row<C, L>(gradient + i, left) * scale + decay * p;
        if (velocity) {
          auto v = g;
          if (!options.first_step) v += momentum * simd::load_row<C, L>(velocity + i, left);
          simd::store_row<C, L>(velocity + i, v, left);
          g = options.nesterov ? g + momentum * v : v;
        }
        parameter.template store<L>(i, decltype(p)(p - lr * g), left, draws, at);
      });
    }
  });
}

/// Puts the numbers in memory into the options. False if the step is to be skipped.
template <class Options>
bool read_numbers(Options& options) {
  const StepNumbers& numbers = options.in_memory;
  if (numbers.gradient_scale) options.gradient_scale = *numbers.gradient_scale.template as<double>();
  if (numbers.step) options.step = *numbers.step.template as<int64_t>();
  return !numbers.skip || *numbers.skip.template as<int32_t>() == 0;
}

void adamw_cpu(const Stream&, std::span<const AdamWTensor> tensors, const AdamWOptions& given) {
  check_adamw(tensors, given);
  AdamWOptions options = given;
  if (!read_numbers(options)) return;
  auto size = [&](size_t t) { return tensors[t].parameter.numel(); };
  for_each_piece(tensors.size(), size, [&](size_t t, int64_t, int64_t begin, int64_t end) {
    dispatch_adamw(tensors[t], [&]<class C, Stored S, class M, class G>() {
      adamw_piece<C, S, M, G>(tensors[t], options, begin, end);
    });
  });
}

void sgd_cpu(const Stream&, std::span<const SgdTensor> tensors, const SgdOptions& given) {
  constexpr auto op = "sgd";
  check_sgd(tensors, given);
  SgdOptions options = given;
  if (!read_numbers(options)) return;
  auto size = [&](size_t t) { return tensors[t].parameter.numel(); };
  for_each_piece(tensors.size(), size, [&](size_t t, int64_t, int64_t begin, int64_t end) {
    dispatch_stored(op, tensors[t], [&]<class C, Stored S, class G>() {
      sgd_piece<C, S, G>(tensors[t], options, begin, end);
    });
  });
}

}  // namespace

decltype(adamw) adamw{"adamw", adamw_cpu};
decltype(sgd) sgd{"sgd", sgd_cpu};

}  // namespace reprise::kernels
