// Every kernel checks where each of its tensors is, those in structs and lists too.
#include "reprise/kernels/kernel.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "reprise/kernels/attention/attention.h"
#include "reprise/kernels/conv/conv2d.h"
#include "reprise/kernels/conv/unfold.h"
#include "reprise/kernels/elementwise/copy.h"
#include "reprise/kernels/elementwise/dropout.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/elementwise/random_fill.h"
#include "reprise/kernels/elementwise/swiglu.h"
#include "reprise/kernels/gemm/gemm.h"
#include "reprise/kernels/index/argsort.h"
#include "reprise/kernels/index/embedding.h"
#include "reprise/kernels/index/index.h"
#include "reprise/kernels/norm/batch_norm.h"
#include "reprise/kernels/norm/layer_norm.h"
#include "reprise/kernels/norm/rms_norm.h"
#include "reprise/kernels/optimizer/gradient_norm.h"
#include "reprise/kernels/optimizer/lerp.h"
#include "reprise/kernels/optimizer/loss_scale.h"
#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/kernels/reduce/cumulative_sum.h"
#include "reprise/kernels/reduce/reduce.h"
#include "reprise/kernels/softmax/cross_entropy.h"
#include "reprise/kernels/softmax/softmax.h"

namespace reprise::kernels {
namespace {

/// An argument of a kernel, to be changed: a list holds two elements.
template <class T>
struct Argument {
  T value{};
  T& given() { return value; }
  T& stored() { return value; }
};
template <class T>
struct Argument<std::span<const T>> {
  std::vector<T> list = std::vector<T>(2);
  std::span<const T> given() { return list; }
  std::vector<T>& stored() { return list; }
};

template <>
struct Argument<Windows> {
  Windows value{1, 1, 0, 1};
  Windows& given() { return value; }
  Windows& stored() { return value; }
};

/// A call with tensor number `which` elsewhere and all others absent must be an Error that names the kernel.
/// `tensors` is how many the header names, two for each in a list.
template <class... Parameters>
void expect_device_checks(const char* name, const Kernel<void(Parameters...)>& kernel, int tensors) {
  auto call = [&](int which) {
    std::tuple<Argument<std::remove_cvref_t<Parameters>>...> arguments;
    int count = 0;
    float number = 0;
    auto place = [&](TensorView& view) {
      if (count++ == which) view = {&number, {}, {}, DType::f32, Device{DeviceType::cuda, 0}};
    };
    std::apply([&](auto&... argument) { (for_each_view(argument.stored(), place), ...); }, arguments);
    if (which < count)
      std::apply([&](auto&... argument) { kernel(Stream(Device::cpu()), argument.given()...); }, arguments);
    return count;
  };
  EXPECT_EQ(call(tensors), tensors) << name;
  for (int which = 0; which < tensors; ++which) {
    std::string message;
    try {
      call(which);
    } catch (const Error& error) { message = error.what(); }
    EXPECT_TRUE(message.starts_with(std::string(name) + ": runs on cpu, but a tensor"))
        << name << ", tensor " << which << ": " << message;
  }
}

TEST(Kernel, RefusesEveryTensorThatIsElsewhere) {
  expect_device_checks("attention", attention, 6);
  expect_device_checks("attention_backward", attention_backward, 10);
  expect_device_checks("conv2d", conv2d, 4);
  expect_device_checks("conv2d_dx", conv2d_dx, 4);
  expect_device_checks("conv2d_dweight", conv2d_dweight, 3);
  expect_device_checks("unfold", unfold, 2);
  expect_device_checks("fold", fold, 3);
  expect_device_checks("copy", copy, 2);
  expect_device_checks("fill", fill, 1);
  expect_device_checks("dropout", dropout, 2);
  expect_device_checks("unary", unary, 2);
  expect_device_checks("unary_backward", unary_backward, 3);
  expect_device_checks("binary", binary, 3);
  expect_device_checks("affine", affine, 2);
  expect_device_checks("add_scaled", add_scaled, 2);
  expect_device_checks("where", where, 4);
  expect_device_checks("fill_uniform", fill_uniform, 1);
  expect_device_checks("fill_normal", fill_normal, 1);
  expect_device_checks("swiglu", swiglu, 3);
  expect_device_checks("swiglu_backward", swiglu_backward, 5);
  expect_device_checks("gemm", gemm, 10);
  expect_device_checks("embedding", embedding, 3);
  expect_device_checks("embedding_backward", embedding_backward, 3);
  expect_device_checks("gather", gather, 3);
  expect_device_checks("scatter_add", scatter_add, 3);
  expect_device_checks("one_hot", one_hot, 2);
  expect_device_checks("arange", arange, 1);
  expect_device_checks("batch_norm", batch_norm, 7);
  expect_device_checks("batch_norm_inference", batch_norm_inference, 7);
  expect_device_checks("batch_norm_backward", batch_norm_backward, 10);
  expect_device_checks("update_running_statistics", update_running_statistics, 5);
  expect_device_checks("layer_norm", layer_norm, 8);
  expect_device_checks("layer_norm_backward", layer_norm_backward, 9);
  expect_device_checks("rms_norm", rms_norm, 8);
  expect_device_checks("rms_norm_backward", rms_norm_backward, 9);
  expect_device_checks("adamw", adamw, 2 * 9 + 4);
  expect_device_checks("sgd", sgd, 2 * 5 + 4);
  expect_device_checks("lerp", lerp, 2 * 3 + 1);
  expect_device_checks("global_norm", global_norm, 2 + 1);
  expect_device_checks("check_finite", check_finite, 2 + 1);
  expect_device_checks("norm_and_check", norm_and_check, 2 + 4);
  expect_device_checks("update_loss_scale", update_loss_scale, 1 + 5);
  expect_device_checks("reduce", reduce, 2);
  expect_device_checks("argmax", argmax, 2);
  expect_device_checks("argsort", argsort, 2);
  expect_device_checks("cumsum", cumulative_sum, 2);
  expect_device_checks("cross_entropy", cross_entropy, 6);
  expect_device_checks("cross_entropy_backward", cross_entropy_backward, 6);
  expect_device_checks("cross_entropy_mean_scale", cross_entropy_mean_scale, 2);
  expect_device_checks("softmax", softmax, 2);
  expect_device_checks("softmax_backward", softmax_backward, 3);
  expect_device_checks("log_softmax", log_softmax, 2);
  expect_device_checks("log_softmax_backward", log_softmax_backward, 3);
}

}  // namespace
}  // namespace reprise::kernels
