// Recorded operations in place: values and gradients of their twins out of place, what they refuse, what stays as it was.
#include <gtest/gtest.h>

#include <functional>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/functional/graph.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/gradcheck.h"
#include "reprise/autograd/meta.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/autograd/ops/index/indexing.h"
#include "reprise/autograd/saved_tensor.h"
#include "reprise/tests/autograd/in_place_twins.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::same_bits;
using testing::test_device;
using testing::Twin;
using Floats = std::vector<float>;

Tensor counted(const Shape& shape, double first = 1) {
  return reshape(arange(numel_of(shape), DType::f32, test_device()), shape) + first;
}
Tensor leaf(const Shape& shape, double first = 1) {
  return counted(shape, first).detach().set_requires_grad();
}

Tensor four_places() { return Tensor::from<int64_t>({2, 0, 2, 1, 1, 0, 0, 1}, {2, 4}).to(test_device()); }
Tensor second_place() { return Tensor::from<int64_t>({1}, {1}).to(test_device()); }

std::vector<Twin> twins() {
  using T = const Tensor&;
  return {
      {"add_", [](T x, T v) { x.add_(v, 3); }, [](T x, T v) { return x + v * 3.0; }},
      {"add_ broadcast", [](T x, T v) { x.add_(v[0]); }, [](T x, T v) { return x + v[0]; }},
      {"sub_", [](T x, T v) { x.sub_(v, 2); }, [](T x, T v) { return x - v * 2.0; }},
      {"add_ number", [](T x, T) { x.add_(1.5).sub_(0.25); }, [](T x, T) { return x + 1.25; }},
      {"mul_ number", [](T x, T) { x.mul_(-3); }, [](T x, T) { return x * -3.0; }},
      {"mul_", [](T x, T v) { x.mul_(v); }, [](T x, T v) { return x * v; }},
      {"div_", [](T x, T v) { x.div_(v).div_(2.0); }, [](T x, T v) { return x / v * 0.5; }},
      {"itself", [](T x, T) { x.add_(x).mul_(x); }, [](T x, T) { return square(x * 2.0); }},
      {"copy_", [](T x, T v) { x.copy_(v); }, [](T x, T v) { return x * 0.0 + v; }},
      {"copy_ broadcast", [](T x, T v) { x.copy_(v[1]); }, [](T x, T v) { return x * 0.0 + v[1]; }},
      {"fill_", [](T x, T) { x.fill_(2); }, [](T x, T) { return x * 0.0 + 2.0; }},
      {"zero_", [](T x, T v) { x.zero_().add_(v); }, [](T x, T v) { return x * 0.0 + v; }},
      {"clamp_", [](T x, T) { x.clamp_(5, 9); }, [](T x, T) { return clamp(x, 5, 9); }},
      {"relu_", [](T x, T) { x.sub_(7.0).relu_(); }, [](T x, T) { return relu(x - 7.0); }},
      {"masked_fill_", [](T x, T v) { x.masked_fill_(v > 3.5, -1); },
       [](T x, T v) { return masked_fill(x, v > 3.5, -1); }},
      {"index_put_",
       [](T x, T v) {
         x.index_put_({1, Slice(1, {})}, v[{0, Slice(0, 2)}]);
       },
       [](T x, T v) {
         return concat(
             {x[{Slice(0, 1)}], concat({x[{Slice(1, 2), Slice(0, 1)}], v[{Slice(0, 1), Slice(0, 2)}]}, 1)},
             0);
       }},
      {"index_put_ number",
       [](T x, T) {
         x.index_put_({ellipsis, 1}, 4);
       },
       [](T x, T) {
         return where(equal(arange(3, DType::i64, x.device()), scalar(1, DType::i64, x.device())),
                      scalar(4, DType::f32, x.device()), x);
       }},
      {"index_put_ mask", [](T x, T v) { x.index_put_({v > 3.5}, -1); },
       [](T x, T v) { return masked_fill(x, v > 3.5, -1); }},
      {"index_put_ adding",
       [](T x, T v) {
         x.index_put_({Slice(), 1}, v[{ellipsis, 0}], true);
       },
       [](T x, T v) {
         return concat({x[{Slice(), Slice(0, 1)}], x[{Slice(), Slice(1, 2)}] + v[{Slice(), Slice(0, 1)}],
                        x[{Slice(), Slice(2, 3)}]},
                       1);
       }},
      {"pow_", [](T x, T) { x.pow_(3); }, [](T x, T) { return pow(x, 3); }},
      {"abs_", [](T x, T) { x.sub_(7).abs_(); }, [](T x, T) { return abs(x - 7.0); }},
      {"exp_", [](T x, T) { x.mul_(0.1).exp_(); }, [](T x, T) { return exp(x * 0.1); }},
      {"log_", [](T x, T) { x.log_(); }, [](T x, T) { return log(x); }},
      {"neg_", [](T x, T) { x.neg_(); }, [](T x, T) { return x * -1.0; }},
      {"sigmoid_", [](T x, T) { x.sigmoid_(); }, [](T x, T) { return sigmoid(x); }},
      {"sqrt_", [](T x, T) { x.sqrt_(); }, [](T x, T) { return sqrt(x); }},
      {"square_", [](T x, T) { x.square_(); }, [](T x, T) { return x * x; }},
      {"tanh_", [](T x, T) { x.mul_(0.1).tanh_(); }, [](T x, T) { return tanh(x * 0.1); }},
      {"tril_", [](T x, T) { x.tril_(); }, [](T x, T) { return tril(x); }},
      {"triu_", [](T x, T) { x.triu_(1); }, [](T x, T) { return triu(x, 1); }},
      {"lerp_", [](T x, T v) { x.lerp_(v[1], 0.25); }, [](T x, T v) { return x + (v[1] - x) * 0.25; }},
      {"lerp_ from the end", [](T x, T v) { x.lerp_(v, 0.75); }, [](T x, T v) { return v - (v - x) * 0.25; }},
      {"addcmul_", [](T x, T v) { x.addcmul_(v, v[0], -2); }, [](T x, T v) { return x + v * v[0] * -2.0; }},
      {"addcdiv_", [](T x, T v) { x.addcdiv_(v[0], v); }, [](T x, T v) { return x + v[0] / v; }},
      // Sources of other shapes than that of x, along both dimensions.
      {"scatter_",
       [](T x, T v) {
         x.scatter_(1, four_places(), concat({v, v[{Slice(), Slice(0, 1)}]}, 1));
       },
       [](T x, T v) {
         return scatter(x, 1, four_places(), concat({v, v[{Slice(), Slice(0, 1)}]}, 1));
       }},
      {"scatter_ number", [](T x, T) { x.scatter_(-1, four_places(), 1.5); },
       [](T x, T) { return scatter(x, 1, four_places(), 1.5); }},
      {"scatter_add_",
       [](T x, T v) {
         x.scatter_add_(0, zeros({1, 3}, DType::i64, x.device()), v[{Slice(1, 2)}]);
       },
       [](T x, T v) {
         return concat({x[{Slice(0, 1)}] + v[1], x[{Slice(1, 2)}]}, 0);
       }},
      {"scatter_ itself",
       [](T x, T) {
         x.scatter_(0, zeros({2, 3}, DType::i64, x.device()), x);
       },
       [](T x, T) {
         return stack({x[1], x[1]}, 0);
       }},
      {"index_add_", [](T x, T v) { x.index_add_(0, second_place(), v[{Slice(0, 1)}]); },
       [](T x, T v) {
         return stack({x[0], x[1] + v[0]}, 0);
       }},
      {"index_copy_", [](T x, T v) { x.index_copy_(0, second_place(), v[{Slice(0, 1)}]); },
       [](T x, T v) {
         return stack({x[0], v[0]}, 0);
       }},
      {"index_fill_", [](T x, T) { x.index_fill_(1, second_place(), 4); },
       [](T x, T) { return index_fill(x, 1, second_place(), 4); }},
      {"uniform_",
       [](T x, T v) {
         Generator generator(3);
         x.uniform_(0, 1, &generator).mul_(v);
       },
       [](T x, T v) {
         Generator generator(3);
         return x * 0.0 + rand({2, 3}, DType::f32, x.device(), &generator) * v;
       }},
      {"normal_",
       [](T x, T v) {
         Generator generator(3);
         x.normal_(0, 1, &generator).add_(v);
       },
       [](T x, T v) {
         Generator generator(3);
         return x * 0.0 + randn({2, 3}, DType::f32, x.device(), &generator) + v;
       }},
  };
}

std::vector<Twin> all_twins() {
  std::vector<Twin> all = twins();
  for (const Twin& twin : testing::twins_of_functions()) all.push_back(twin);
  return all;
}

// The gradients of both, with weights that tell places apart.
TensorList gradients(const std::function<Tensor(const Tensor&, const Tensor&)>& f, Tensor& y) {
  const Tensor w = leaf({2, 3}), v = leaf({2, 3}, 0.5);
  y = f(w * 2.0, v);
  TensorList g =
      grad({sum(square(y) * counted({2, 3}))}, {w, v}, {}, {.create_graph = true, .allow_unused = true});
  if (!g[1].defined()) g[1] = zeros_like(v);
  const Tensor once = sum(square(g[0])) + sum(g[1] * square(v));
  for (const Tensor& second : grad({once}, {w, v}, {}, {.allow_unused = true}))
    g.push_back(second.defined() ? second : zeros_like(w));
  return g;
}

TEST(InPlace, RecordsWhatItsTwinOutOfPlaceDoes) {
  for (const Twin& twin : all_twins()) {
    SCOPED_TRACE(twin.name);
    Tensor got_y, want_y;
    auto in_place = [&](const Tensor& x, const Tensor& v) {
      const Tensor other_handle = x;
      twin.in_place(x, v);
      EXPECT_TRUE(other_handle.is_same(x) && same_bits(other_handle, x));
      return x;
    };
    const TensorList got = gradients(in_place, got_y), want = gradients(twin.out_of_place, want_y);
    EXPECT_TRUE(same_bits(got_y, want_y));
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
      if (!want[i].defined()) continue;
      EXPECT_TRUE(testing::is_close(got[i], want[i], 1e-6)) << i;
    }
  }
}

// Where no graph is, the same calls write the memory, which another handle and a view see, and give the same bits.
TEST(InPlace, WritesTheMemoryOutsideOfGraphs) {
  for (const Twin& twin : all_twins()) {
    SCOPED_TRACE(twin.name);
    const Tensor x = counted({2, 3}) * 2.0, view = x.reshape({6}), v = counted({2, 3}, 0.5);
    const uint64_t version = x.version();
    const Tensor want = twin.out_of_place(x.clone(), v);
    NoGrad guard;
    twin.in_place(x, v);
    EXPECT_TRUE(same_bits(view.reshape({2, 3}), want));
    EXPECT_GT(x.version(), version);
    const Tensor w = leaf({2, 3});
    twin.in_place(w, v);
    EXPECT_TRUE(w.is_leaf() && w.requires_grad());
  }
}

// d/dw and d/dv of sum(y) by hand; PyTorch 2.15 gives the same.
TEST(InPlace, HasTheGradientsThatPyTorchGives) {
  const Tensor w = leaf({3}), v = leaf({3}, 4);  // 1 2 3, 4 5 6
  Tensor h = w * 2.0;
  const Tensor e = h * v;  // keeps 2 4 6
  h.mul_(3).add_(v, 0.5);
  h.index_put_({1}, v[2] * v[0]);
  (sum(h) + sum(e)).backward();
  EXPECT_EQ(h.to_vector<float>(), (Floats{8, 24, 21}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{6 + 8, 10, 6 + 12}));
  EXPECT_EQ(v.grad().to_vector<float>(), (Floats{0.5F + 6 + 2, 4, 0.5F + 4 + 6}));
  EXPECT_EQ(grad_fn_name(h), "index_put");
}

TEST(InPlace, IsDifferentiableTwiceAsGradcheckSays) {
  auto f = [](const TensorList& in) {
    Tensor x = in[0] * 1.0;
    x.mul_(in[1]).add_(in[1], -0.5);
    x.index_put_({Tensor::from<int64_t>({1, 0, 1}, {3})}, in[1][{Slice(0, 1)}] * x[0].clone());
    x.index_put_({Slice(), 1}, in[1][{Slice(), 0}], true);
    return TensorList{x * x};
  };
  const Tensor a = Tensor::from<double>({0.5, -1, 2, 1.5, 0.25, -0.75}, {2, 3}).set_requires_grad();
  const Tensor b = Tensor::from<double>({1.5, 0.5, -2, 1, 2, 0.75}, {2, 3}).set_requires_grad();
  EXPECT_TRUE(gradcheck(f, {a, b}));
  EXPECT_TRUE(gradgradcheck(f, {a, b}));
}

TEST(InPlace, RefusesLeavesParametersAndTheirViews) {
  const Tensor w = leaf({4}), frozen = counted({4});
  autograd::mark_parameter(frozen);
  expect_error([&] { w.add_(1.0); }, "add_: a leaf that requires grad, of shape (4,)", "NoGrad");
  expect_error([&] { w.index_put_({0}, 1); }, "index_put_: a leaf that requires grad");
  expect_error([&] { frozen.mul_(w); }, "mul_: a module's parameter");
  const Tensor thawed = leaf({4}), saves_it = w * thawed;
  thawed.set_requires_grad(false);  // the graph has this very handle
  expect_error([&] { thawed.mul_(w); }, "or a leaf that required grad once, of shape (4,)");
  expect_error(
      [&] {
        w.reshape({2, 2}).mul_(2);
      },
      "mul_: what shares the memory of a leaf that requires grad");
  expect_error([&] { frozen[{Slice(0, 1)}].mul_(w[0]); }, "mul_: what shares the memory");
  expect_error([&] { w.detach().add_(w); }, "add_: what shares the memory");
  expect_error([&] { (w * 2.0)[0].expand({3}).mul_(2); }, "mul_: the target is expanded");
  Tensor whole = arange(4, DType::i64, test_device());
  expect_error([&] { whole.mul_(w); }, "mul_: the result of i64 and f32 does not fit in i64");
  EXPECT_EQ(whole.copy_(w * 1.5).to_vector<int64_t>(), (std::vector<int64_t>{1, 3, 4, 6}));
  EXPECT_FALSE(whole.requires_grad());
  EXPECT_EQ(w.to_vector<float>(), (Floats{1, 2, 3, 4}));
}

// A view that the operation does not reach is never read with the old values.
TEST(InPlace, LeavesNoViewBehind) {
  const Tensor w = leaf({4});
  using View = std::function<Tensor(const Tensor&)>;
  const std::vector<View> views{[](const Tensor& h) { return h[{Slice(0, 2)}]; },
                                [](const Tensor& h) { return h.detach(); },
                                [](const Tensor& h) {
                                  return h.reshape({2, 2});
                                },
                                [](const Tensor& h) {
                                  return h.expand({3, 4});
                                }};
  for (const View& view_of : views) {
    const Tensor h = w * 2.0, view = view_of(h), of_view = view[0];
    h.relu_();
    for (const Tensor& old : {view, of_view}) {
      const std::string message = "was used after relu_, recorded in a graph, gave another value";
      expect_error([&] { old.to_vector<float>(); }, message);
      expect_error([&] { old * 2.0; }, message);
      expect_error([&] { old.detach(); }, message);
      expect_error([&] { old.unsqueeze(0); }, message);
    }
    EXPECT_EQ(view_of(h).to_vector<float>()[0], 2);  // one that is made now
    h.mul_(2);
    EXPECT_EQ(h.to_vector<float>(), (Floats{4, 8, 12, 16}));
  }
  const Tensor base = w * 2.0, part = base[{Slice(1, 3)}];
  part.mul_(2);  // the base is what does not follow
  expect_error([&] { base.zero_(); }, "was used after mul_");
  EXPECT_EQ(part.to_vector<float>(), (Floats{8, 12}));
  expect_error([&] { sum(base); }, "a view of shape (4,) was used after mul_");
  // What is gone is no view, what the call itself reads is one for so long.
  Tensor last = (w * 2.0)[{Slice(2, 4)}];
  last.mul_(2).copy_(last[1] * 2.0).add_(last.reshape({2, 1})[0]);
  EXPECT_EQ(last.to_vector<float>(), (Floats{64, 64}));
}

// What a graph keeps is not a view that the program has: it stays what it was.
TEST(InPlace, LeavesWhatGraphsKeep) {
  const Tensor w = leaf({3});
  Tensor h = exp(w * 0.0);  // 1 1 1; keeps its result
  const Tensor s = h * w;   // keeps h
  h.mul_(5).mul_(h);
  const Tensor t = square(h);  // keeps 25
  h.zero_();
  EXPECT_EQ(grad({sum(s)}, {w}, {}, {.retain_graph = true})[0].to_vector<float>(), (Floats{1, 1, 1}));
  EXPECT_EQ(t.to_vector<float>(), (Floats{625, 625, 625}));
  sum(t + h).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{0, 0, 0}));
  // A write outside of the graph is told, as ever.
  Tensor a = w * 2.0, b = a * a;
  {
    NoGrad guard;
    a.mul_(2);
  }
  expect_error([&] { sum(b).backward(); },
               "mul: a tensor of shape (3,) that backward needs was changed in place");
}

TEST(InPlace, KeepsItsDtype) {
  const Tensor w = leaf({2});
  Tensor half = (w * 2.0).to(DType::bf16);
  half.mul_(w);  // f32
  EXPECT_EQ(half.dtype(), DType::bf16);
  half.copy_(w * 3.0);
  half.index_put_({0}, w[1] * 0.5);
  EXPECT_EQ(half.dtype(), DType::bf16);
  EXPECT_EQ(half.to_vector<float>(), (Floats{1, 6}));
  sum(half).backward();
  EXPECT_EQ(w.grad().dtype(), DType::f32);
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{0, 3.5}));
  half.add_(w, 0.5).addcmul_(w, w).lerp_(w, 0.5);
  EXPECT_EQ(half.dtype(), DType::bf16);
  const amp::Autocast scope(test_device(), DType::bf16);
  Tensor wide = w * 1.0, narrow = wide.to(DType::bf16);
  wide.index_put_({0}, narrow[1]);
  narrow.index_put_({0}, w[1]);
  EXPECT_EQ(wide.dtype(), DType::f32);
  EXPECT_EQ(narrow.dtype(), DType::bf16);
}

// A hook is of the value that it was put on; retain_grad is of the tensor, as in PyTorch.
TEST(InPlace, LeavesHooksWithTheOldValueAndTakesRetainGradAlong) {
  const Tensor w = leaf({2});
  Tensor h = w * 2.0;
  Floats of_old, of_new;
  h.retain_grad();
  h.register_hook([&](const Tensor& g) { return of_old = g.to_vector<float>(), Tensor(); });
  h.mul_(3);
  h.register_hook([&](const Tensor& g) { return of_new = g.to_vector<float>(), Tensor(); });
  sum(h * 5.0).backward();
  EXPECT_EQ(of_old, (Floats{15, 15}));
  EXPECT_EQ(of_new, (Floats{5, 5}));
  EXPECT_EQ(h.grad().to_vector<float>(), (Floats{5, 5}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{30, 30}));
}

// Bytes that a buffer of `rows` costs which is filled row by row in a graph, forward and back.
size_t bytes_to_fill(int64_t rows, const std::function<void(Tensor&, int64_t, const Tensor&)>& fill) {
  constexpr int64_t width = 64;
  const Tensor w = leaf({width});
  Allocator& memory = allocator(test_device());
  memory.start_recording();
  Tensor buffer = zeros({rows, width}, DType::f32, test_device());
  const void* data = buffer.view().data;
  for (int64_t i = 0; i < rows; ++i) fill(buffer, i, w * double(i));
  EXPECT_EQ(buffer.view().data, data);
  sum(buffer * buffer).backward();
  size_t bytes = 0;
  for (const MemoryEvent& event : memory.stop_recording())
    if (event.bytes > 0) bytes += size_t(event.bytes);
  double want = 0;
  for (int64_t i = 0; i < rows; ++i) want += 2.0 * double(i) * double(i);
  EXPECT_NEAR(w.grad().to_vector<double>()[2], 3 * want, 1e-3 * want);
  return bytes;
}

TEST(InPlace, FillsABufferInTimeThatGrowsWithItsSize) {
  const std::vector<std::function<void(Tensor&, int64_t, const Tensor&)>> ways{
      [](Tensor& buffer, int64_t i, const Tensor& row) { buffer.index_put_({i}, row); },
      [](Tensor& buffer, int64_t i, const Tensor& row) { buffer[i] = row; },
      [](Tensor& buffer, int64_t i, const Tensor& row) { buffer[i][Slice()] = row; },
      [](Tensor& buffer, int64_t i, const Tensor& row) { buffer[i] += row; }};
  for (const auto& fill : ways) EXPECT_LT(bytes_to_fill(128, fill), 5 * bytes_to_fill(32, fill));
}

// Another handle, a graph that keeps the old value, a source that is the tensor itself: then the memory is not the operation's.
TEST(InPlace, WritesIntoTheOldMemoryOnlyWhereNothingElseHasIt) {
  const Tensor w = leaf({4});
  auto keeps_memory = [&](const std::function<Tensor(const Tensor&)>& look) {
    Tensor h = w * 2.0;
    const Tensor held = look(h);
    const void* data = h.view().data;
    h.index_put_({0}, w[0]);
    EXPECT_EQ(h.to_vector<float>(), (Floats{1, 4, 6, 8}));
    return h.view().data == data;
  };
  EXPECT_TRUE(keeps_memory([](const Tensor&) { return Tensor(); }));
  EXPECT_FALSE(keeps_memory([](const Tensor& h) { return h; }));
  EXPECT_FALSE(keeps_memory([](const Tensor& h) { return square(h); }));
}

// Values that lie where they are to be written, in another order.
TEST(InPlace, PutsItsOwnRowsIntoOtherPlaces) {
  const Tensor order = Tensor::from<int64_t>({2, 0, 1}, {3});
  const Tensor x = Tensor::from<float>({1, 2, 3}, {3, 1}), sum = x.clone();
  x.index_put_({order}, x);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 3, 1}));
  sum.index_put_({order}, sum, true);
  EXPECT_EQ(sum.to_vector<float>(), (std::vector<float>{3, 5, 4}));
}

// A pack hook that fails while the operation writes into the old memory: no half value is read afterwards.
TEST(InPlace, HasNoValueAfterItFailedHalfway) {
  const Tensor w = leaf({4}), rows = Tensor::from<int64_t>({0, 2}, {2}, test_device());
  Tensor h = w * 2.0;
  {
    autograd::SavedTensorHooks hooks([](const Tensor&) -> std::any { fail("no room"); },
                                     [](const std::any&) { return Tensor(); });
    expect_error([&] { h.index_put_({rows}, w[{Slice(0, 2)}]); }, "no room");
  }
  expect_error([&] { h.to_vector<float>(); }, "was used after index_put_");
  expect_error([&] { sum(h); }, "was used after index_put_");
  Tensor kept = w * 2.0;
  const Tensor other = kept;  // then it is a copy that is written
  {
    autograd::SavedTensorHooks hooks([](const Tensor&) -> std::any { fail("no room"); },
                                     [](const std::any&) { return Tensor(); });
    expect_error([&] { kept.index_put_({rows}, w[{Slice(0, 2)}]); }, "no room");
  }
  EXPECT_EQ(kept.to_vector<float>(), (Floats{2, 4, 6, 8}));
}

}  // namespace
}  // namespace reprise
