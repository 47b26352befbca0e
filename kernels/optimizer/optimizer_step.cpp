// Optimizer steps on the CPU, bound by memory: AdamW moves 28 bytes per parameter (f32; also bf16 with
// its master copy), SGD with momentum 20.
// The tensors are cut into pieces of one size, and the pieces of all tensors are the tasks of one loop.
#include "reprise/kernels/optimizer/optimizer_step.h"

#include <cmath>
#include <vector>

#include "reprise/kernels/cpu/rows.h"
#include "reprise/kernels/optimizer/optimizer_step_checks.h"
#include "reprise/kernels/optimizer/pieces.h"
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

/// Coefficients of one tensor's update in the type it is computed in.
template <class C>
struct AdamWStep {
  C beta1, beta2, eps, gradient_scale, decay, step_size, root_bias2;

  AdamWStep(const AdamWTensor& tensor, const AdamWOptions& options)
      : AdamWStep(tensor, options, tensor.updates ? *tensor.updates.as<int64_t>() + 1 : options.step) {}

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

template <class C, class G>
void adamw_piece(const AdamWTensor& tensor, const AdamWOptions& options, int64_t begin, int64_t end) {
  AdamWStep<C> step(tensor, options);
  C* parameter = static_cast<C*>(tensor.parameter.data);
  C* first = static_cast<C*>(tensor.first_moment.data);
  C* second = static_cast<C*>(tensor.second_moment.data);
  const G* gradient = static_cast<const G*>(tensor.gradient.data);
  G* rounded = static_cast<G*>(tensor.rounded.data);
  simd::run([&]<int W>() {
    constexpr int L = simd::lanes_of<C, W>;
    for_each_vector<L>(end - begin, [&](int64_t j, int64_t left) {
      int64_t i = begin + j;
      auto p = simd::load_row<C, L>(parameter + i, left), g = simd::load_row<C, L>(gradient + i, left);
      auto m = simd::load_row<C, L>(first + i, left), v = simd::load_row<C, L>(second + i, left);
      step.update(p, g, m, v);
      simd::store_row<C, L>(parameter + i, p, left);
      if (rounded) simd::store_row<C, L>(rounded + i, p, left);
      simd::store_row<C, L>(first + i, m, left);
      simd::store_row<C, L>(second + i, v, left);
    });
  });
}

template <class C, class G>
void sgd_piece(const SgdTensor& tensor, const SgdOptions& options, int64_t begin, int64_t end) {
  C scale = C(options.gradient_scale), decay = C(tensor.weight_decay);
  C lr = C(lr_of(tensor.lr, options.in_memory));
  C momentum = C(options.momentum);
  C* parameter = static_cast<C*>(tensor.parameter.data);
  C* velocity = static_cast<C*>(tensor.velocity.data);
  const G* gradient = static_cast<const G*>(tensor.gradient.data);
  simd::run([&]<int W>() {
    constexpr int L = simd::lanes_of<C, W>;
    for_each_vector<L>(end - begin, [&](int64_t j, int64_t left) {
      int64_t i = begin + j;
      auto p = simd::load_row<C, L>(parameter + i, left);
      auto g = simd::load_row<C, L>(gradient + i, left) * scale + decay * p;
      if (velocity) {
        auto v = g;
        if (!options.first_step) v += momentum * simd::load_row<C, L>(velocity + i, left);
        simd::store_row<C, L>(velocity + i, v, left);
        g = options.nesterov ? g + momentum * v : v;
      }
      simd::store_row<C, L>(parameter + i, decltype(p)(p - lr * g), left);
    });
  });
}

/// Calls body.operator()<C, G>() with the types of parameter and gradient.
template <class Body>
void dispatch_types(const char* op, const TensorView& gradient, Body&& body) {
  dispatch_floating(gradient.dtype, op, [&]<class G>() { body.template operator()<Accumulator<G>, G>(); });
}

/// Puts the numbers in memory into the options. False if the step is to be skipped.
template <class Options>
bool read_numbers(Options& options) {
  const StepNumbers& numbers = options.in_memory;
  if (numbers.gradient_scale) options.gradient_scale = *numbers.gradient_scale.template as<double>();
  return !numbers.skip || *numbers.skip.template as<int32_t>() == 0;
}

void adamw_cpu(const Stream&, std::span<const AdamWTensor> tensors, const AdamWOptions& given) {
  constexpr auto op = "adamw";
  check_adamw(tensors, given);
  AdamWOptions options = given;
  if (!read_numbers(options)) return;
  if (options.in_memory.step) options.step = *options.in_memory.step.as<int64_t>();
  auto size = [&](size_t t) { return tensors[t].parameter.numel(); };
  for_each_piece(tensors.size(), size, [&](size_t t, int64_t, int64_t begin, int64_t end) {
    dispatch_types(op, tensors[t].gradient,
                   [&]<class C, class G>() { adamw_piece<C, G>(tensors[t], options, begin, end); });
  });
}

void sgd_cpu(const Stream&, std::span<const SgdTensor> tensors, const SgdOptions& given) {
  constexpr auto op = "sgd";
  check_sgd(tensors, given);
  SgdOptions options = given;
  if (!read_numbers(options)) return;
  auto size = [&](size_t t) { return tensors[t].parameter.numel(); };
  for_each_piece(tensors.size(), size, [&](size_t t, int64_t, int64_t begin, int64_t end) {
    dispatch_types(op, tensors[t].gradient,
                   [&]<class C, class G>() { sgd_piece<C, G>(tensors[t], options, begin, end); });
  });
}

}  // namespace

decltype(adamw) adamw{"adamw", adamw_cpu};
decltype(sgd) sgd{"sgd", sgd_cpu};

}  // namespace reprise::kernels
