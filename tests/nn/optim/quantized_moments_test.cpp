// AdamW with moments of 8 bits: which tensors have them, what is saved, and that nothing but an update changes them.
#include "reprise/autograd/ops.h"
#include "reprise/core/parallel.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/nn/optim/half_parameters.h"

namespace reprise::optim {
namespace {

using namespace testing;

constexpr AdamWOptions kBlocks{.lr = 1e-3, .master = Master::stochastic, .moments = DType::u8, .seed = 5};

/// One that has blocks, the last of them not whole, and one that is too small for them.
TensorList mixed_parameters(DType dtype) {
  TensorList parameters;
  for (const Shape& shape : {Shape{5, 1031}, Shape{3, 5}})
    parameters.push_back(tensor_of(numbers(size_t(numel_of(shape)), 1), shape)
                             .to(dtype)
                             .to(test_device())
                             .set_requires_grad());
  return parameters;
}

TEST(QuantizedMoments, AreThoseOfTensorsThatAreLargeEnough) {
  TensorList parameters = mixed_parameters(DType::bf16);
  AdamW optimizer(parameters, kBlocks);
  set_half_gradients(parameters, 0);
  optimizer.step();
  EXPECT_EQ(state_of(optimizer, "0.first_moment").dtype(), DType::u8);
  EXPECT_EQ(state_of(optimizer, "0.second_moment_max").shape(), Shape{21});  // 20 blocks and 35 elements
  EXPECT_EQ(state_of(optimizer, "1.first_moment").dtype(), DType::f32);
  EXPECT_FALSE(state_of(optimizer, "1.first_moment_max").defined());
  // The first update's moments: the largest of the first block is a tenth of its largest gradient.
  const std::vector<float> gradient = parameters[0].grad().to(Device()).to(DType::f32).to_vector<float>();
  double largest = 0;
  for (size_t i = 0; i < 256; ++i) largest = std::max(largest, std::abs(double(gradient[i])));
  const std::vector<float> of_blocks =
      state_of(optimizer, "0.first_moment_max").to(Device()).to_vector<float>();
  EXPECT_NEAR(std::abs(of_blocks[0]), 0.1 * largest, 1e-6 * largest);
}

TEST(QuantizedMoments, BeginAtZero) {
  TensorList parameters = mixed_parameters(DType::bf16);
  AdamW optimizer(parameters, {.lr = 1, .weight_decay = 0, .moments = DType::u8});
  optimizer.allocate_state();
  const TensorList before = copies_of(parameters);
  for (const Tensor& p : parameters) p.set_grad(zeros(p.shape(), p.dtype(), p.device()));
  optimizer.step();
  EXPECT_TRUE(same_bits(parameters, before)) << "m / sqrt(v) of no gradient is 0";
}

TEST(QuantizedMoments, ResumeToTheBit) {
  TensorList first = mixed_parameters(DType::bf16);
  AdamW stopped(first, kBlocks);
  auto step = [](TensorList& parameters, AdamW& optimizer, uint64_t number) {
    set_half_gradients(parameters, number);
    optimizer.step();
  };
  for (uint64_t number = 0; number < 3; ++number) step(first, stopped, number);
  TensorList second = copies_of(first);
  AdamW resumed(second, {.lr = 1e-3, .master = Master::stochastic, .moments = DType::u8, .seed = 77});
  resumed.load_state_dict(copy_of(stopped.state_dict()));
  for (uint64_t number = 3; number < 6; ++number) step(first, stopped, number), step(second, resumed, number);
  expect_same_state(resumed, stopped);
  EXPECT_TRUE(same_bits(second, first));
  nn::NamedTensors without = copy_of(stopped.state_dict());
  std::erase_if(without, [](const auto& entry) { return entry.first == "0.first_moment_max"; });
  expect_error([&] { resumed.load_state_dict(without); }, {"parameter 0", "first_moment_max"});
}

TEST(QuantizedMoments, AreNotChangedByAnUpdateThatIsNotMadeNorByThreads) {
  const Tensor one = Tensor::from<double>({1}, {}, test_device());
  const Tensor found = Tensor::from<int32_t>({3}, {}, test_device()),
               fine = Tensor::from<int32_t>({0}, {}, test_device());
  TensorList skipping = mixed_parameters(DType::bf16), plain = copies_of(skipping);
  AdamW a(skipping, kBlocks), b(plain, kBlocks);
  const int threads = num_threads();
  for (uint64_t step = 0; step < 4; ++step) {
    set_half_gradients(skipping, step + 100);
    if (step % 2 == 1) a.step_if_finite(one, found);
    set_half_gradients(skipping, step);
    a.step_if_finite(one, fine);
    set_num_threads(step % 2 ? 1 : 3);
    set_half_gradients(plain, step);
    b.step();
    set_num_threads(threads);
  }
  expect_same_state(a, b);
  EXPECT_TRUE(same_bits(skipping, plain));
}

}  // namespace
}  // namespace reprise::optim
