// Numbers that are read while the device goes on.
#include "reprise/core/cuda/late_read.h"

#include <gtest/gtest.h>

#include "reprise/autograd/ops.h"
#include "reprise/core/cuda/graph.h"
#include "reprise/tests/support/errors.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::test_device;

TEST(LateRead, GivesNumbersAsTheyWereWhenItWasStarted) {
  const Device device = test_device();
  Tensor a = scalar(1.25, DType::f64, device), b = scalar(-3, DType::f32, device);
  Tensor c = scalar(1 << 20, DType::i32, device), d = scalar(0x1p52, DType::i64, device);
  cuda::LateRead read(device, 4);
  EXPECT_TRUE(read.is_done()) << "it was never started";
  EXPECT_TRUE(read.finish().empty());
  const TensorView numbers[] = {a, b, c, d};
  read.start(numbers);
  for (const Tensor& x : {a, b, c, d}) Tensor(x).fill_(9);
  EXPECT_EQ(read.finish(), (std::vector<double>{1.25, -3, 1 << 20, 0x1p52}));
  EXPECT_TRUE(read.is_done());
  EXPECT_EQ(read.finish()[0], 1.25) << "once more";
  read.start(std::span(numbers).first(2));
  EXPECT_EQ(read.finish(), (std::vector<double>{9, 9}));
}

TEST(LateRead, RefusesWhatItCannotRead) {
  const Device device = test_device();
  cuda::LateRead read(device, 1);
  const Tensor one = scalar(1, DType::f32, device), two = zeros({2}, DType::f32, device);
  const Tensor half = scalar(1, DType::f16, device), on_cpu = scalar(1, DType::f32);
  auto refuses = [&](const std::vector<TensorView>& numbers, const char* message) {
    expect_error([&] { read.start(numbers); }, message);
  };
  refuses({one, one}, "LateRead: 2 numbers, made for 1");
  refuses({two}, "LateRead: a tensor of shape (2,)");
  refuses({half}, "LateRead: needs f64, f32, i64 or i32, is f16");
  if (device.is_cpu()) return;
  refuses({on_cpu}, "on cpu, needs one element on cuda");
  const std::vector<TensorView> number = {one};
  expect_error([&] { cuda::Graph graph(current_stream(device), [&] { read.start(number); }); },
               "LateRead: while a graph is captured");
}

}  // namespace
}  // namespace reprise
