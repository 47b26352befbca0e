// Ops against PyTorch's values in tests/golden/ops.safetensors (tools/parity_ops.py), in f64 and in f32.
#include <functional>
#include <string>
#include <vector>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/io/safetensors.h"
#include "reprise/kernels/image/image_batch.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/golden.h"

namespace reprise {
namespace {

using testing::is_close;

const io::SafetensorsFile& golden() {
  static const io::SafetensorsFile file(reprise::testing::golden_path("ops.safetensors"));
  return file;
}

// In f64 what remains is that the golden values are stored in f32, half a unit in the last place: 6e-8 of the
// tensor's largest value. f32 adds the op's own roundings, some ten of them.
double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-7 : 1e-6; }

// Values and gradients of `fn`, called with the case's tensors named `inputs`.
void check_case(const std::string& key, const std::vector<std::string>& inputs,
                const std::function<Tensor(const TensorList&)>& fn, const std::string& output = "y") {
  for (DType dtype : {DType::f64, DType::f32}) {
    SCOPED_TRACE(key + (dtype == DType::f64 ? " in f64" : " in f32"));
    TensorList leaves;
    for (const std::string& name : inputs)
      leaves.push_back(golden().read(key + "." + name).to(dtype).set_requires_grad());
    Tensor y = fn(leaves);
    EXPECT_TRUE(is_close(y.detach().to(DType::f64), golden().read(key + "." + output).to(DType::f64),
                         tolerance(dtype)));
    y.backward(golden().read(key + ".d" + output).to(dtype));
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor want = golden().read(key + ".d" + inputs[i]);
      EXPECT_TRUE(is_close(leaves[i].grad().to(DType::f64), want.to(DType::f64), tolerance(dtype)))
          << "gradient of " << inputs[i];
    }
  }
}

TEST(Golden, NormsAreThoseOfPyTorch) {
  check_case("layer_norm.affine", {"x", "weight", "bias"},
             [](const TensorList& in) { return layer_norm(in[0], in[1], in[2], 1e-5); });
  check_case("rms_norm.affine", {"x", "weight"},
             [](const TensorList& in) { return rms_norm(in[0], in[1], 1e-6); });
}

TEST(Golden, ActivationsAreThoseOfPyTorch) {
  check_case("gelu.exact", {"x"}, [](const TensorList& in) { return gelu(in[0]); });
  check_case("gelu.tanh", {"x"}, [](const TensorList& in) { return gelu_tanh(in[0]); });
  check_case("silu.plain", {"x"}, [](const TensorList& in) { return silu(in[0]); });
}

TEST(Golden, SoftmaxesAreThoseOfPyTorch) {
  check_case("softmax.last_axis", {"x"}, [](const TensorList& in) { return softmax(in[0]); });
  check_case("log_softmax.last_axis", {"x"}, [](const TensorList& in) { return log_softmax(in[0]); });
}

TEST(Golden, CrossEntropyIsThatOfPyTorch) {
  auto check = [](const std::string& name, double smoothing) {
    std::string key = "cross_entropy." + name;
    Tensor targets = golden().read(key + ".targets");
    check_case(
        key, {"logits"},
        [&](const TensorList& in) { return cross_entropy(in[0], targets, {.label_smoothing = smoothing}); },
        "loss");
  };
  check("plain", 0);
  check("ignore_index", 0);
  check("label_smoothing", 0.1);
  check("ignore_and_smoothing", 0.1);
}

TEST(Golden, LossesAreThoseOfPyTorch) {
  for (double smoothing : {0.0, 0.1}) {
    const std::string key =
        smoothing == 0 ? "cross_entropy.probabilities" : "cross_entropy.probabilities_and_smoothing";
    Tensor targets = golden().read(key + ".targets");
    check_case(
        key, {"logits"},
        [&](const TensorList& in) { return cross_entropy(in[0], targets, {.label_smoothing = smoothing}); },
        "loss");
  }
  check_case(
      "bce_with_logits.mean", {"x", "targets"},
      [](const TensorList& in) { return bce_with_logits(in[0], in[1]); }, "loss");
  for (double beta : {1.0, 0.25})
    check_case(
        beta == 1 ? "smooth_l1.plain" : "smooth_l1.beta", {"x", "y"},
        [=](const TensorList& in) { return smooth_l1(in[0], in[1], {.beta = beta}); }, "loss");
}

TEST(Golden, PoolsAreThoseOfPyTorch) {
  for (bool up : {false, true}) {
    const std::string name = up ? "ceil" : "padded";
    check_case("max_pool2d." + name, {"x"}, [=](const TensorList& in) {
      return max_pool2d(in[0], 3, {.stride = 2, .padding = 1, .ceil_mode = up});
    });
    for (bool counts : {false, true})
      check_case("avg_pool2d." + name + (counts ? "_counted" : ""), {"x"}, [=](const TensorList& in) {
        return avg_pool2d(in[0], 3,
                          {.stride = 2, .padding = 1, .ceil_mode = up, .count_include_pad = counts});
      });
  }
}

TEST(Golden, InterpolationIsThatOfPyTorch) {
  auto check = [](const std::string& name, const InterpolateOptions& options) {
    for (Size2 size : {Size2{11, 4}, Size2{3, 13}})
      check_case(detail::join("interpolate.", name, "_", size.height, "_", size.width,
                              options.align_corners ? "_corners" : "", options.antialias ? "_antialias" : ""),
                 {"x"}, [=](const TensorList& in) { return interpolate(in[0], size, options); });
  };
  check("nearest", {});
  for (bool corners : {false, true})
    for (bool antialias : {false, true}) {
      check("bilinear", {Interpolation::bilinear, corners, antialias});
      check("bicubic", {Interpolation::bicubic, corners, antialias});
    }
}

TEST(Golden, BordersAndTransposedConvolutionAreThoseOfPyTorch) {
  check_case("pad.reflect", {"x"}, [](const TensorList& in) {
    return pad(in[0], {.top = 2, .bottom = 4, .left = 1, .right = 3, .mode = PadMode::reflect});
  });
  check_case("conv_transpose2d.strided", {"x", "weight", "bias"}, [](const TensorList& in) {
    return conv_transpose2d(in[0], in[1], in[2],
                            {.stride = {2, 3}, .padding = 1, .output_padding = {1, 2}, .dilation = {1, 2}});
  });
}

TEST(Golden, BytesBecomeTorchvisionsNumbersToTheBit) {
  const double means[] = {0.485, 0.456, 0.406}, deviations[] = {0.229, 0.224, 0.225};
  EXPECT_EQ(kernels::image_table(means, deviations),
            golden().read("image_table.imagenet.table").to_vector<float>());
}

TEST(Golden, AttentionIsThatOfPyTorch) {
  auto check = [](const std::string& name, bool causal) {
    check_case("scaled_dot_product_attention." + name, {"q", "k", "v"},
               [=](const TensorList& in) { return attention(in[0], in[1], in[2], {.causal = causal}); });
  };
  check("causal", true);
  check("full", false);
  check("full_cross", false);
}

}  // namespace
}  // namespace reprise
