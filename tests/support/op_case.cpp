// The tests every op gets. See op_case.h.
#include "reprise/tests/support/op_case.h"

#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/gradcheck.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/saved_tensor.h"
#include "reprise/core/parallel.h"
#include "reprise/kernels/gemm/cublaslt.h"
#include "reprise/tests/support/run_modes.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::testing {
namespace {

constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

enum class Layout {
  contiguous,
  transposed,    // column-major storage
  unaligned,     // starts one element into its storage
  every_second,  // stride 2 in the last dimension
};
constexpr Layout kLayouts[] = {Layout::contiguous, Layout::transposed, Layout::unaligned,
                               Layout::every_second};
const char* name_of(Layout layout) {
  constexpr const char* names[] = {"contiguous", "transposed", "unaligned", "every_second"};
  return names[size_t(layout)];
}

// A copy of x with other storage.
Tensor in_layout(const Tensor& x, Layout layout) {
  NoGrad guard;
  if (layout == Layout::contiguous || (layout == Layout::every_second && x.rank() == 0)) return x.clone();
  Tensor y;
  if (layout == Layout::transposed) {
    Dims order, reversed;
    for (int d = x.rank() - 1; d >= 0; --d) {
      order.push_back(d);
      reversed.push_back(x.shape()[d]);
    }
    y = Tensor::empty(reversed, x.dtype(), x.device()).permute(order);
  } else if (layout == Layout::every_second) {
    Shape wide = x.shape();
    wide[x.rank() - 1] *= 2;
    y = full(wide, 77, x.dtype(), x.device()).slice(-1, 0, wide.back(), 2);
  } else {
    y = Tensor::empty({x.numel() + 1}, x.dtype(), x.device()).slice(0, 1, x.numel() + 1).reshape(x.shape());
  }
  y.copy_(x);
  return y;
}

// The numbers of an input in f64, rounded to `dtype` so that the op and its oracle start from the same.
Tensor numbers_of(const OpInput& input, size_t index, DType dtype) {
  if (input.values.defined()) return input.values;
  std::vector<double> values(size_t(numel_of(input.shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    auto bits = philox_block(1, index, i);
    values[i] = input.low + (input.high - input.low) * to_unit_float(bits[0]);
    if (input.either_sign && (bits[1] & 1)) values[i] = -values[i];
  }
  return Tensor::from(values, input.shape).to(dtype).to(DType::f64);
}

OpDTypes uniform(const OpCase& op, DType dtype) {
  return {std::vector<DType>(op.inputs.size(), dtype), dtype};
}

// Those of the checks that need no more than one.
OpDTypes usual(const OpCase& op) { return op.dtypes ? *op.dtypes : uniform(op, DType::f32); }

std::string described(const OpDTypes& dtypes) {
  std::string text;
  for (DType dtype : dtypes.inputs) text += detail::join(dtype, " ");
  return detail::join(text, "-> ", dtypes.output);
}

double roundoff(const OpDTypes& dtypes) {
  double largest = unit_roundoff(dtypes.output);
  for (DType dtype : dtypes.inputs) largest = std::max(largest, unit_roundoff(dtype));
  return largest;
}

// In these dtypes, or with their numbers in f64.
enum class Held { as_rounded, in_f64 };

TensorList make_inputs(const std::vector<OpInput>& inputs, const OpDTypes& dtypes, Held held, Layout layout,
                       Device device) {
  NoGrad guard;
  TensorList made;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor numbers = numbers_of(inputs[i], i, dtypes.inputs[i]);
    if (!inputs[i].values.defined() && held == Held::as_rounded) numbers = numbers.to(dtypes.inputs[i]);
    Tensor x = in_layout(numbers.to(device), layout);
    if (!inputs[i].values.defined() && inputs[i].requires_grad) x.set_requires_grad();
    made.push_back(x);
  }
  return made;
}

Tensor output_gradient(const Tensor& y, DType rounded_to, DType dtype) {
  NoGrad guard;
  Generator generator(7);
  return randn(y.shape(), DType::f64, Device::cpu(), &generator).to(rounded_to).to(dtype).to(y.device());
}

// y = fn(inputs) under NoGrad, for its shape.
Tensor probe(const OpFunction& fn, const TensorList& inputs) {
  NoGrad guard;
  return fn(inputs);
}

RunResult plain_run(const OpFunction& fn, const TensorList& inputs, const Tensor& dy) {
  return run_modes().front().run(fn, inputs, dy);
}

TensorList usual_inputs(const OpCase& op, const std::vector<OpInput>& inputs) {
  return make_inputs(inputs, usual(op), Held::as_rounded, Layout::contiguous, test_device());
}
Tensor usual_gradient(const OpCase& op, const Tensor& y) {
  return output_gradient(y, usual(op).output, usual(op).output);
}

void compare_with_oracle(const OpCase& op, const std::vector<OpInput>& inputs, const OpDTypes& dtypes,
                         Layout layout, Device device) {
  TensorList exact = make_inputs(inputs, dtypes, Held::in_f64, Layout::contiguous, Device::cpu());
  const OpFunction& oracle = op.composite ? op.composite : op.fn;
  Tensor shape_only = probe(oracle, exact);
  const double tolerance = op.roundings * roundoff(dtypes);
  auto compare = [&](const Tensor& exact_dy, const Tensor& dy) {
    RunResult want = plain_run(oracle, exact, exact_dy);
    TensorList given = make_inputs(inputs, dtypes, Held::as_rounded, layout, device);
    RunResult got = plain_run(op.fn, given, dy);
    EXPECT_EQ(got.output.dtype(), dtypes.output) << "the output's dtype";
    EXPECT_TRUE(is_close(got.output, want.output, tolerance)) << "in the output";
    if (op.reference && &inputs != &op.empty_inputs) {
      EXPECT_TRUE(is_close(got.output.to_vector<double>(), op.reference(exact), tolerance))
          << "in the output, against plain loops";
    }
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i].requires_grad()) continue;
      ASSERT_TRUE(got.grads[i].defined()) << "no gradient of input " << i;
      EXPECT_EQ(got.grads[i].dtype(), dtypes.inputs[i]) << "dtype of the gradient of input " << i;
      EXPECT_TRUE(is_close(got.grads[i], want.grads[i], tolerance)) << "in the gradient of input " << i;
    }
  };
  compare(output_gradient(shape_only, dtypes.output, DType::f64),
          in_layout(output_gradient(shape_only, dtypes.output, dtypes.output).to(device), layout));
  if (layout != Layout::contiguous) return;
  SCOPED_TRACE("one number for all elements of the output's gradient");
  compare(full(shape_only.shape(), 1, DType::f64),
          full({}, 1, dtypes.output, device).expand(shape_only.shape()));
}

void compare_everywhere(const OpCase& op) {
  Device device = test_device();
  std::vector<OpDTypes> tried;
  if (op.dtypes) tried.push_back(*op.dtypes);
  for (DType dtype : kDTypes)
    if (!op.dtypes) tried.push_back(uniform(op, dtype));
  for (const OpDTypes& dtypes : tried)
    for (Layout layout : kLayouts) {
      SCOPED_TRACE(detail::join(op.name, " ", device, " ", described(dtypes), " ", name_of(layout)));
      compare_with_oracle(op, op.inputs, dtypes, layout, device);
      if (!op.empty_inputs.empty()) {
        SCOPED_TRACE("empty inputs");
        compare_with_oracle(op, op.empty_inputs, dtypes, layout, device);
      }
    }
}

void check_gradients_numerically(const OpCase& op) {
  TensorList inputs =
      make_inputs(op.inputs, uniform(op, DType::f64), Held::in_f64, Layout::contiguous, Device::cpu());
  auto fn = [&](const TensorList& in) { return TensorList{op.fn(in)}; };
  EXPECT_NO_THROW(gradcheck(fn, inputs)) << op.name;
  if (op.differentiable_twice) { EXPECT_NO_THROW(gradgradcheck(fn, inputs)) << op.name; }
}

// Everything that must give the very bits of a plain run.
void compare_modes(const OpCase& op, const std::vector<OpInput>& inputs) {
  TensorList given = usual_inputs(op, inputs);
  Tensor dy = usual_gradient(op, probe(op.fn, given));
  RunResult want = plain_run(op.fn, given, dy);
  EXPECT_TRUE(same_bits(probe(op.fn, given), want.output)) << op.name << ": output without a graph";
  for (const RunMode& mode : run_modes()) {
    SCOPED_TRACE(op.name + " with " + mode.name);
    RunResult got = mode.run(op.fn, given, dy);
    EXPECT_TRUE(same_bits(got.output, want.output)) << "output";
    EXPECT_TRUE(same_bits(got.grads, want.grads)) << "gradients of inputs";
  }
}

// Asking for one gradient alone gives the bits it has among the others; but a library may sum a bias's gradient beside
// the product of its weight's in another order than where one of the two is not wanted.
void check_single_gradients(const OpCase& op) {
  TensorList given = usual_inputs(op, op.inputs);
  Tensor dy = usual_gradient(op, probe(op.fn, given));
  RunResult all = plain_run(op.fn, given, dy);
  const bool by_library =
      op.sums_bias_with_weight && test_device().is_cuda() && kernels::vendor::has_cublaslt();
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].requires_grad()) continue;
    TensorList one;
    for (const Tensor& x : given) one.push_back(x.detach());
    one[i].set_requires_grad();
    RunResult alone = plain_run(op.fn, one, dy);
    const Tensor &got = alone.grads[i], &want = all.grads[i];
    EXPECT_TRUE(by_library ? is_close(got, want, 8 * unit_roundoff(DType::f32)) : same_bits(got, want))
        << op.name << ": gradient of input " << i << " alone";
  }
}

void check_accumulation(const OpCase& op) {
  TensorList given = usual_inputs(op, op.inputs);
  Tensor dy = usual_gradient(op, probe(op.fn, given));
  RunResult plain = plain_run(op.fn, given, dy);
  for (const Tensor& x : given)
    if (x.requires_grad()) x.set_grad(full(x.shape(), 0.5, x.dtype(), x.device()));
  op.fn(given).backward(dy);
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].requires_grad()) continue;
    EXPECT_TRUE(same_bits(given[i].grad(), plain.grads[i] + 0.5))
        << op.name << ": gradient of input " << i << " added to 0.5";
  }
}

// A graph that kept something refuses to run twice, unless it was told to keep it.
void check_second_backward(const OpCase& op) {
  TensorList given = usual_inputs(op, op.inputs);
  int64_t kept = 0;
  autograd::SavedTensorHooks count(
      [&](const Tensor& x) {
        ++kept;
        return std::any(x);
      },
      [](const std::any& x) { return std::any_cast<Tensor>(x); });
  Tensor y = op.fn(given);
  Tensor dy = usual_gradient(op, y);
  y.backward(dy);
  if (kept > 0) expect_error([&] { y.backward(dy); }, {"second time", "retain_graph"});
}

void check_leaks(const OpCase& op) {
  auto once = [&] {
    TensorList given = usual_inputs(op, op.inputs);
    plain_run(op.fn, given, usual_gradient(op, probe(op.fn, given)));
    op.fn(given);  // a graph that never runs backward goes away too
  };
  once();  // kernels may keep workspace from their first call on
  int64_t nodes = autograd::live_nodes(), blocks = allocator(test_device()).stats().live_blocks;
  once();
  EXPECT_EQ(autograd::live_nodes(), nodes) << op.name << ": graph nodes were leaked";
  EXPECT_EQ(allocator(test_device()).stats().live_blocks, blocks) << op.name << ": tensors were leaked";
}

}  // namespace

void check_op(const OpCase& op) {
  ASSERT_TRUE(op.composite || op.reference) << op.name << " is compared with nothing but itself";
  compare_everywhere(op);
  // Of the graph, whatever the device; in f64.
  if (test_device().is_cpu() && !op.dtypes) check_gradients_numerically(op);
  compare_modes(op, op.inputs);
  if (!op.large_inputs.empty()) compare_modes(op, op.large_inputs);
  check_single_gradients(op);
  check_accumulation(op);
  check_second_backward(op);
  check_leaks(op);
}

}  // namespace reprise::testing
