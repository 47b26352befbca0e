#include "reprise/tests/autograd/recompute/random_operations.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/index/indexing.h"

namespace reprise::testing {
namespace {

// sin and cos of x as two rows of one buffer, which is saved whole.
struct SinCos : autograd::Function<SinCos> {
  static constexpr const char* name = "sin_cos";
  TensorList forward(const Tensor& x) {
    Tensor both = Tensor::zeros({2, kSide, kSide}, x.dtype(), x.device());
    both.select(0, 0).copy_(sin(x));
    both.select(0, 1).copy_(cos(x));
    save(both);
    return {both.alias(both.select(0, 0).view()), both.alias(both.select(0, 1).view())};
  }
  TensorList backward(const TensorList& dy) {
    Tensor both = saved(0);
    return {dy[0] * both.select(0, 1) - dy[1] * both.select(0, 0)};
  }
};

// tanh(x) * w, of several operations, which saves an intermediate and leaves its result out if it may.
struct TanhTimes : autograd::Function<TanhTimes> {
  static constexpr const char* name = "tanh_times";
  Tensor forward(const Tensor& x, const Tensor& w) {
    Tensor t = tanh(x);
    save(t, w);
    return results_wanted() ? t * w : Tensor::hollow(x.view());
  }
  TensorList backward(const TensorList& dy) {
    Tensor t = saved(0), w = saved(1);
    return {dy[0] * w * (1.0 - t * t), dy[0] * t};
  }
};

// x plus numbers that it draws itself.
struct Shaken : autograd::Function<Shaken> {
  static constexpr const char* name = "shaken";
  Tensor forward(const Tensor& x, Generator* generator) {
    return x + randn(x.shape(), x.dtype(), x.device(), generator);
  }
  TensorList backward(const TensorList& dy) { return {dy[0]}; }
};

// Halves its argument in place, and gives one number that nothing reads.
struct HalveInPlace : autograd::Function<HalveInPlace> {
  static constexpr const char* name = "halve_in_place";
  Tensor forward(const Tensor& x) {
    x.mul_(0.5);
    return Tensor::zeros({1}, x.dtype(), x.device());
  }
  TensorList backward(const TensorList&) { return {Tensor()}; }
};

const std::vector<Operation>& simple_operations() {
  static const std::vector<Operation> operations = {
      // What draws comes first, and is read by what saves it.
      {"dropout", [](const Arguments& in) { return sin(dropout(in.a, 0.3)); }},
      {"dropout by generator",
       [](const Arguments& in) { return sin(dropout(in.a, 0.3, &in.machine.generator)); }},
      {"shaken", [](const Arguments& in) { return sin(Shaken::apply(in.a, nullptr)); }},
      {"shaken by generator",
       [](const Arguments& in) { return sin(Shaken::apply(in.a, &in.machine.generator)); }},
      {"noise",
       [](const Arguments& in) { return sin(in.a + randn(in.a.shape(), DType::f32, in.a.device())); }},
      {"sin", [](const Arguments& in) { return sin(in.a); }},
      {"tanh", [](const Arguments& in) { return tanh(in.a); }},
      {"exp", [](const Arguments& in) { return exp(tanh(in.a)); }},
      {"gelu", [](const Arguments& in) { return gelu(in.a); }},
      {"affine", [](const Arguments& in) { return in.a * in.number + 0.1; }},
      {"add", [](const Arguments& in) { return in.a + in.b; }},
      {"mul", [](const Arguments& in) { return in.a * tanh(in.b); }},
      {"maximum", [](const Arguments& in) { return maximum(in.a, in.b); }},
      {"where", [](const Arguments& in) { return where(greater(in.a, in.b), in.a, in.b * 0.5); }},
      {"matmul", [](const Arguments& in) { return tanh(matmul(in.a, in.b)); }},
      {"softmax", [](const Arguments& in) { return softmax(in.a); }},
      {"layer_norm", [](const Arguments& in) { return layer_norm(in.a, select(in.parameter(), 0, 1), {}); }},
      {"linear", [](const Arguments& in) { return linear(in.a, in.parameter()); }},
      {"mlp", [](const Arguments& in) { return mlp(in.a, in.parameter(), {}, in.machine.parameter(0), {}); }},
      {"scale", [](const Arguments& in) { return in.a * in.parameter(); }},
      {"mean", [](const Arguments& in) { return in.a - mean(in.a, {1}, true); }},
      {"bf16", [](const Arguments& in) { return (in.a.to(DType::bf16) * 0.5).to(DType::f32); }},
      {"tanh times", [](const Arguments& in) { return TanhTimes::apply(in.a, in.b); }},
      {"threshold", [](const Arguments& in) { return where(greater(in.a, in.buffer()), in.a * in.b, in.a); }},
      {"not equal",
       [](const Arguments& in) { return where(not_equal(in.buffer(), in.b), tanh(in.b), in.a); }},
      {"best of a buffer",
       [](const Arguments& in) { return in.b * one_hot(argmax(in.buffer(), -1), kSide); }},
      {"in training",
       [](const Arguments& in) { return in.machine.is_training() ? dropout(in.a, 0.3) : in.a; }},
      {"scaled from outside", [](const Arguments& in) { return in.a * in.outside(); }},
      {"tensor from outside",
       [](const Arguments& in) { return sin(in.a * scalar(in.outside(), DType::f32, in.a.device())); }},
      {"part from outside",
       [](const Arguments& in) {
         auto begin = int64_t(in.outside());
         return concat({in.a.slice(1, begin, kSide), in.b.slice(1, 0, begin)}, 1);
       }},
  };
  return operations;
}

Tensor changed_in_place(const Arguments& in) {
  Tensor m = sin(in.a.detach()), view = m.transpose(0, 1);
  Tensor before = m + in.b;  // keeps nothing
  m.mul_(0.5).add_(in.b.detach());
  return before * 0.5 + in.b * view;
}

Tensor changed_by_an_operation(const Arguments& in) {
  Tensor m = cos(in.a.detach());
  HalveInPlace::apply(m);
  return in.b * m;
}

Tensor filled_piece_by_piece(const Arguments& in) {
  Tensor m = Tensor::zeros(in.a.shape(), DType::f32, in.a.device());
  for (int64_t i = 0; i < kSide; i += 2) m.select(0, i).copy_(select(in.a, 1, i).detach());
  return in.b * m + in.a;
}

// In the graph, if a or b are: a value that is kept, and others in its place.
Tensor replaced_in_place(const Arguments& in) {
  Tensor m = sin(in.a);
  Tensor kept = (m.requires_grad() ? m : m.clone()) * in.b;  // outside of the graph the memory is written
  m.mul_(0.5).add_(in.b, 0.7);
  m.index_put_({1}, kept[2] + m[3]);
  m.index_put_({m > 0.9}, 0.9);
  return tanh(m) * kept;
}

Tensor filled_by_rows(const Arguments& in) {
  Tensor m = Tensor::zeros(in.a.shape(), DType::f32, in.a.device());
  for (int64_t i = 0; i < kSide; ++i) m.index_put_({i}, tanh(in.a[kSide - 1 - i]));
  m.index_put_({Slice(), 0}, in.b[{Slice(), 1}], true);
  return m.relu_() * in.b;
}

Tensor added_to_own(const Arguments& in) {
  in.own.mul_(0.75).add_(in.a, in.number);
  return tanh(in.own) * in.b;
}

Tensor put_into_own(const Arguments& in) {
  const auto row = int64_t(in.number * double(kSide));
  in.own.index_put_({row}, tanh(in.a[kSide - 1 - row]), in.number < 0.3);
  Tensor read = in.b + sin(in.own);  // keeps it, if it is in the graph
  in.own.index_put_({Slice(), row}, in.a[{Slice(), 0}] * 0.5);
  return read;
}

Tensor added_to_rows_of_own(const Arguments& in) {
  const Tensor rows = Tensor::from<int64_t>({0, 3, 0}, {3}, in.a.device());
  Tensor part = in.own[{Slice(2, 4)}] * 0.5;  // of a view that is gone
  in.own.index_put_({rows}, tanh(in.b[{Slice(1, 4)}]), true);
  in.own.index_put_({in.own > 1.5}, in.number);
  return concat({part, in.a[{Slice(0, kSide - 2)}]}, 0) + in.own.clone();
}

Tensor copied_to_own(const Arguments& in) {
  const Tensor before = in.own.detach().clone();
  if (in.number < 0.5)
    in.own.copy_(in.a * in.b).clamp_(-2, 2);
  else
    in.own.sub_(in.b);
  return tanh(in.a) + before * in.own.clone();
}

Tensor functions_of_own(const Arguments& in) {
  in.own.sigmoid_().addcmul_(in.a, in.b, in.number).lerp_(in.b, in.number);
  const Tensor read = in.b + sin(in.own);  // keeps it, if it is in the graph
  if (in.number < 0.5)
    in.own.square_().neg_().exp_();
  else
    in.own.abs_().add_(1.0).log_().tril_(1);
  in.own.addcdiv_(in.a, square(in.b) + 1.0).tanh_();
  return read * in.own.clone();
}

Tensor places_of_own(const Arguments& in) {
  const Tensor rows = Tensor::from<int64_t>({2, 0, 2}, {3}, in.a.device());
  in.own.index_add_(0, rows, tanh(in.a[{Slice(0, 3)}]));
  const Tensor read = in.b + sin(in.own);
  in.own.scatter_(1, rows.unsqueeze(0).expand({kSide, 3}), in.b[{Slice(), Slice(1, 4)}] * 0.5);
  in.own.index_fill_(0, rows[{Slice(1, 2)}], in.number);
  return read;
}

// Drawn where a value was, which another one keeps, if it is in the graph.
Tensor drawn_in_own(const Arguments& in) {
  const Tensor read = in.a + sin(in.own);
  if (in.number < 0.5)
    in.own.uniform_(-1, 1);
  else
    in.own.normal_(0, 1, &in.machine.generator);
  return read + sin(in.own.add_(in.b, 0.5));
}

// State that the first run alone changes, by update_state or by asking.
Tensor state_updated(const Arguments& in) {
  const Tensor row = in.b.detach()[2];  // an operation of both runs
  auto update = [&] {
    in.machine.state.mul_(0.75).add_(in.a.detach(), in.number);
    in.machine.state.index_put_({1}, row, true);
  };
  if (in.number < 0.5)
    update_state(update);
  else if (!recompute::is_replaying())
    update();
  return tanh(in.a) + in.b;
}

// A view of what is no part of a graph, made before it is changed and read after.
Tensor viewed_before(const Arguments& in) {
  Tensor m = cos(in.a.detach()), row = m[1], flat = m.reshape({-1});
  m.add_(in.b.detach(), 0.5);
  m.index_put_({1}, in.number);
  return in.b * row + flat.reshape({kSide, kSide}).detach() * in.a;
}

Tensor slope(const Arguments& in) {
  EnableGrad on;
  Tensor at = in.a.detach().set_requires_grad(), part = at * 3.0;
  Tensor y = in.number < 0.5 ? part + at : part + sin(at);
  return in.b * autograd::grad({sum(y)}, {at})[0] + y.detach();
}

Tensor slope_of_filled(const Arguments& in) {
  EnableGrad on;
  Tensor at = in.a.detach().set_requires_grad(), m = zeros({kSide, kSide}, DType::f32, in.a.device());
  m.index_put_({0}, tanh(at[1]));
  m.add_(at, in.number);
  Tensor dm = autograd::grad({sum(square(m))}, {at}, {}, {.retain_graph = true})[0];
  dm.mul_(0.25).add_(in.b);
  return tanh(dm) * in.a + m.detach();
}

Tensor hooked(const Arguments& in) {
  Tensor y = sin(in.a);
  if (y.requires_grad())
    y.register_hook([&machine = in.machine](const Tensor& dy) {
      ++machine.hook_calls;
      return dy * 1.5;
    });
  return tanh(y) * 0.5;
}

const std::vector<Operation>& other_operations() {
  static const std::vector<Operation> operations = {
      {"transpose", [](const Arguments& in) { return in.a.transpose(0, 1); }},
      {"clone", [](const Arguments& in) { return in.a.transpose(0, 1).clone(); }},
      {"flat",
       [](const Arguments& in) {
         return square(reshape(in.a, {-1})).reshape({kSide, kSide}) * 0.2;
       }},
      {"rows",
       [](const Arguments& in) {
         return concat({in.a.slice(0, 2, kSide), in.b.slice(0, 0, 2)}, 0);
       }},
      {"columns",
       [](const Arguments& in) {
         TensorList parts = split(in.a, 2, 1);
         return concat({parts[2], sin(parts[0]), parts[1]}, 1);
       }},
      {"expand",
       [](const Arguments& in) {
         return in.a.select(0, 1).expand({kSide, kSide}) * in.b;
       }},
      {"sin cos",
       [](const Arguments& in) {
         TensorList both = SinCos::apply(in.a);
         return both[0] * both[1] + sin(both[1]);
       }},
      {"detach", [](const Arguments& in) { return tanh(in.a).detach() * in.b; }},
      {"no grad",
       [](const Arguments& in) {
         NoGrad off;
         return sin(in.a) * in.b;
       }},
      {"one hot", [](const Arguments& in) { return in.b * one_hot(argmax(in.a, -1), kSide); }},
      {"empty",
       [](const Arguments& in) {
         Tensor none = in.a.slice(0, 0, 0);
         return concat({sin(none) * 2.0, in.a}, 0);
       }},
      {"item of a buffer",
       [](const Arguments& in) { return in.a * in.buffer().select(0, 1).select(0, 2).item(); }},
      {"branch on a buffer",
       [](const Arguments& in) { return in.buffer().to_vector<float>()[3] > 0 ? sin(in.b) : in.b * 2.0; }},
      {"by hand from outside",
       [](const Arguments& in) {
         auto row = Tensor::from(std::vector<float>(kSide, float(in.outside())), {kSide}, in.a.device());
         return in.a * row;
       }},
      {"filled from a buffer",
       [](const Arguments& in) {
         Tensor own = Tensor::zeros(in.a.shape(), DType::f32, in.a.device());
         own.copy_(in.buffer()).add_(in.buffer(), in.outside());
         return in.a * own;
       }},
      {"replaced in place", replaced_in_place},
      {"filled by rows", filled_by_rows},
      {"added to its own", added_to_own},
      {"put into its own", put_into_own},
      {"added to rows of its own", added_to_rows_of_own},
      {"copied to its own", copied_to_own},
      {"functions of its own", functions_of_own},
      {"places of its own", places_of_own},
      {"drawn in its own", drawn_in_own},
      {"hooked", hooked},
      {"branch on a value",
       [](const Arguments& in) { return in.a.to_vector<float>()[3] > 0 ? sin(in.b) : cos(in.b); }},
      {"changed in place", changed_in_place},
      {"changed by an operation", changed_by_an_operation},
      {"filled piece by piece", filled_piece_by_piece},
      {"state updated", state_updated},
      {"viewed before", viewed_before},
      {"slope", slope},
      {"slope of filled", slope_of_filled},
  };
  return operations;
}

constexpr size_t kBeyondOperations = 8;  // the last of the table

}  // namespace

size_t operation_count(const ProgramSize& size) {
  return simple_operations().size() + other_operations().size() -
         (size.of_operations_alone ? kBeyondOperations : 0);
}

const Operation& operation(size_t i) {
  size_t simple = simple_operations().size();
  return i < simple ? simple_operations()[i] : other_operations()[i - simple];
}

}  // namespace reprise::testing
