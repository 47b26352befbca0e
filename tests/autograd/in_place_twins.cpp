#include "reprise/tests/autograd/in_place_twins.h"

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/numbers.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/elementwise/powers.h"
#include "reprise/autograd/ops/elementwise/remainder.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/index/indexing.h"
#include "reprise/autograd/ops/tensor/random.h"

namespace reprise::testing {

std::vector<Twin> twins_of_functions() {
  using T = const Tensor&;
  return {
      {"floor_", [](T x, T v) { x.mul_(0.3).floor_().add_(v); }, [](T x, T v) { return floor(x * 0.3) + v; }},
      {"ceil_", [](T x, T v) { x.mul_(0.3).ceil_().add_(v); }, [](T x, T v) { return ceil(x * 0.3) + v; }},
      {"round_", [](T x, T v) { x.mul_(0.3).round_().add_(v); }, [](T x, T v) { return round(x * 0.3) + v; }},
      {"trunc_", [](T x, T v) { x.sub_(5.25).trunc_().add_(v); },
       [](T x, T v) { return trunc(x - 5.25) + v; }},
      {"sign_", [](T x, T v) { x.sub_(6.0).sign_().add_(v); }, [](T x, T v) { return sign(x - 6.0) + v; }},
      {"sin_", [](T x, T) { x.sin_(); }, [](T x, T) { return sin(x); }},
      {"cos_", [](T x, T) { x.cos_(); }, [](T x, T) { return cos(x); }},
      {"erf_", [](T x, T) { x.mul_(0.1).erf_(); }, [](T x, T) { return erf(x * 0.1); }},
      {"log1p_", [](T x, T) { x.log1p_(); }, [](T x, T) { return log1p(x); }},
      {"expm1_", [](T x, T) { x.mul_(0.1).expm1_(); }, [](T x, T) { return expm1(x * 0.1); }},
      {"reciprocal_", [](T x, T) { x.reciprocal_(); }, [](T x, T) { return reciprocal(x); }},
      {"rsqrt_", [](T x, T) { x.rsqrt_(); }, [](T x, T) { return rsqrt(x); }},
      {"elu_", [](T x, T) { x.sub_(7.0).elu_(0.5); }, [](T x, T) { return elu(x - 7.0, 0.5); }},
      {"leaky_relu_", [](T x, T) { x.sub_(7.0).leaky_relu_(0.25); },
       [](T x, T) { return leaky_relu(x - 7.0, 0.25); }},
      {"pow_ tensor", [](T x, T v) { x.mul_(0.1).pow_(v[0]); }, [](T x, T v) { return pow(x * 0.1, v[0]); }},
      {"remainder_", [](T x, T) { x.sub_(7.0).remainder_(2.5); },
       [](T x, T) { return remainder(x - 7.0, 2.5); }},
      {"remainder_ tensor", [](T x, T v) { x.sub_(7.0).remainder_(v); },
       [](T x, T v) { return remainder(x - 7.0, v); }},
      {"fmod_", [](T x, T) { x.sub_(7.0).fmod_(2.5); }, [](T x, T) { return fmod(x - 7.0, 2.5); }},
      {"fmod_ tensor", [](T x, T v) { x.sub_(7.0).fmod_(v[1]); },
       [](T x, T v) { return fmod(x - 7.0, v[1]); }},
      {"masked_fill_ tensor", [](T x, T v) { x.masked_fill_(v[0] > 1, v[1][0]); },
       [](T x, T v) { return where(v[0] > 1, v[1][0], x); }},
      {"fill_ tensor",
       [](T x, T v) {
         x.fill_(v[{0, Slice(1, 2)}]).mul_(v);
       },
       [](T x, T v) { return x * 0.0 + v[0][1] * v; }},
      {"fill_ itself", [](T x, T) { x.fill_(x[1][1]); }, [](T x, T) { return x * 0.0 + x[1][1]; }},
      {"cumsum_", [](T x, T) { x.cumsum_(-1); }, [](T x, T) { return cumsum(x, 1); }},
      {"lerp_ tensor", [](T x, T v) { x.lerp_(v, v[0] * 0.2); },
       [](T x, T v) {
         const Tensor w = v[0] * 0.2;  // 0.1 0.3 0.5
         return where(w < 0.5, x + (v - x) * w, v - (v - x) * (1.0 - w));
       }},
      {"bernoulli_",
       [](T x, T v) {
         Generator generator(3);
         x.bernoulli_(0.3, &generator).add_(v);
       },
       [](T x, T v) {
         Generator generator(3);
         return x * 0.0 + bernoulli(full({2, 3}, 0.3, DType::f64, x.device()), &generator).to(DType::f32) + v;
       }},
      {"add_ another dtype", [](T x, T v) { x.add_(v.to(DType::i64), 0.5).sub_(v.to(DType::f64)); },
       [](T x, T v) {
         const Tensor sum = x + floor(v).detach() * 0.5;
         return cast(sum.to(DType::f64) - v.to(DType::f64), DType::f32);
       }},
  };
}

}  // namespace reprise::testing
