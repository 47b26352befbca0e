// Residual networks.
#include "reprise/nn/models/resnet.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/core/number_in.h"
#include "reprise/nn/init.h"

namespace reprise::nn {
namespace {

constexpr int64_t expansion = 4;  // of a bottleneck

constexpr std::string_view blocks_prefix = "blocks.";

// Of a name that begins with "blocks.N.": N; -1 if that is no number.
int64_t block_in(std::string_view name) {
  name.remove_prefix(blocks_prefix.size());
  return number_in<int64_t>(name.substr(0, name.find('.'))).value_or(-1);
}

const ResNetOptions& checked(const ResNetOptions& o) {
  check(o.channels >= 1 && o.classes >= 1 && o.width >= 1, "ResNet: sizes must be positive, got ", o.channels,
        " channels, ", o.classes, " classes and width ", o.width);
  check(!o.blocks.empty(), "ResNet: needs at least one stage");
  for (int64_t count : o.blocks) check(count >= 1, "ResNet: a stage needs at least one block, got ", count);
  return o;
}

Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride, Device device) {
  return Conv2d(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}, device);
}

}  // namespace

ResNetOptions resnet_preset(std::string_view name) {
  if (name == "18") return {.blocks = {2, 2, 2, 2}};
  if (name == "34") return {.blocks = {3, 4, 6, 3}};
  if (name == "50") return {.blocks = {3, 4, 6, 3}, .block = ResNetBlock::bottleneck};
  fail("resnet_preset: unknown depth '", name, "'; use 18, 34 or 50");
}

ResidualBlock::ResidualBlock(ResNetBlock kind, const Shape& s, Device device)
    : conv1(kind == ResNetBlock::basic ? convolution(s.in, s.width, 3, s.stride, device)
                                       : convolution(s.in, s.width, 1, 1, device)),
      bn1(s.width, {}, device),
      conv2(convolution(s.width, s.width, 3, kind == ResNetBlock::basic ? 1 : s.stride, device)),
      bn2(s.width, {}, device) {
  register_module("conv1", conv1);
  register_module("bn1", bn1);
  register_module("conv2", conv2);
  register_module("bn2", bn2);
  if (kind == ResNetBlock::bottleneck) {
    conv3.emplace(s.width, s.out, 1, Conv2dLayerOptions{.bias = false}, device);
    bn3.emplace(s.out, BatchNormLayerOptions(), device);
    register_module("conv3", *conv3);
    register_module("bn3", *bn3);
  }
  if (s.stride == 1 && s.in == s.out) return;
  downsample.emplace();
  downsample->add<Conv2d>(s.in, s.out, 1, Conv2dLayerOptions{.stride = s.stride, .bias = false}, device);
  downsample->add<BatchNorm2d>(s.out, BatchNormLayerOptions(), device);
  register_module("downsample", *downsample);
}

Tensor ResidualBlock::forward(const Tensor& x) {
  Tensor y = conv2(bn1.forward(conv1(x), {.activation = Activation::relu}));
  if (conv3) y = (*conv3)(bn2.forward(y, {.activation = Activation::relu}));
  BatchNorm2d& last = bn3 ? *bn3 : bn2;
  return last.forward(y, {.activation = Activation::relu, .residual = downsample ? (*downsample)(x) : x});
}

ResNet::ResNet(const ResNetOptions& options, Device device)
    : conv1(options.stem == ResNetStem::imagenet
                ? convolution(checked(options).channels, options.width, 7, 2, device)
                : convolution(checked(options).channels, options.width, 3, 1, device)),
      bn1(options.width, {}, device),
      blocks({.name = "blocks",
              .before = [this](const Tensor& images) { return embed(images); },
              .after =
                  [this](const Tensor& x, const Tensor&) {
                    return cross_entropy(classify(x), zeros({x.size(0)}, DType::i64, x.device()));
                  },
              .model = this}),
      options_(options) {
  register_module("conv1", conv1);
  register_module("bn1", bn1);
  register_module("blocks", blocks);
  const int64_t out = add_blocks(device);
  blocks.set_recompute(options.recompute);
  fc.emplace(out, options.classes, LinearOptions(), device);
  register_module("fc", *fc);
  NoGrad guard;
  for (const auto& [name, parameter] : named_parameters())
    if (parameter.rank() == 4) parameter.copy_(kaiming_init(parameter.shape(), device));
}

// Returns the channels of the last one.
int64_t ResNet::add_blocks(Device device) {
  int64_t in = options_.width, width = options_.width;
  for (size_t stage = 0; stage < options_.blocks.size(); ++stage, width *= 2)
    for (int64_t i = 0; i < options_.blocks[stage]; ++i) {
      const int64_t out = options_.block == ResNetBlock::basic ? width : width * expansion;
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      auto& block =
          blocks.add<ResidualBlock>(options_.block, ResidualBlock::Shape{in, width, out, stride}, device);
      if (options_.zero_init_last) (block.bn3 ? block.bn3->weight : block.bn2.weight).detach().zero_();
      stage_names_.push_back("layer" + std::to_string(stage + 1) + "." + std::to_string(i));
      in = out;
    }
  return in;
}

Tensor ResNet::embed(const Tensor& images) {
  check(images.rank() == 4 && images.size(1) == options_.channels, "ResNet: images must be (N, ",
        options_.channels, ", H, W), got ", images.shape());
  Tensor x = bn1.forward(conv1(images), {.activation = Activation::relu});
  return options_.stem == ResNetStem::imagenet ? max_pool2d(x, 3, {.stride = 2, .padding = 1}) : x;
}

Tensor ResNet::forward(const Tensor& images) { return classify(blocks(images)); }

Tensor ResNet::features(const Tensor& images) const {
  check_unchanged("features");
  return blocks(images);
}

int64_t ResNet::layer_of(std::string_view parameter) const {
  if (parameter.starts_with(blocks_prefix)) {
    const int64_t block = block_in(parameter);
    check(block >= 0 && block < blocks.size(), "ResNet: layer_of: no parameter ", parameter);
    return block + 1;
  }
  if (parameter.starts_with("fc.")) return blocks.size() + 1;
  check(parameter.starts_with("conv1.") || parameter.starts_with("bn1."), "ResNet: layer_of: no parameter ",
        parameter);
  return 0;
}

NamedTensors ResNet::state_dict() const {
  NamedTensors state = Module::state_dict();
  for (auto& [name, tensor] : state)
    if (name.starts_with(blocks_prefix))
      name = stage_names_[size_t(block_in(name))] + name.substr(name.find('.', blocks_prefix.size()));
  return state;
}

}  // namespace reprise::nn
