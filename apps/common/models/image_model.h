// ImageModel: the network of a classifier, a Vit or a ResNet, as programs that train it and ask it see it.
#pragma once

#include <memory>
#include <variant>

#include "reprise/nn/models/resnet.h"
#include "reprise/nn/models/vit.h"

namespace reprise::apps {

/// What a network is built from.
using ImageModelOptions = std::variant<nn::VitOptions, nn::ResNetOptions>;

/// Images (N, channels, image, image) -> logits (N, classes).
class ImageModel {
 public:
  ImageModel(const ImageModelOptions& options, Device device);

  Tensor operator()(const Tensor& images) const;
  nn::Module& module() const;
  nn::BlockStack& blocks() const;
  int64_t classes() const;
  Device device() const;
  /// Images that a training step takes at least: batch norm needs two numbers, and of a small image a ResNet's last stage
  /// has one.
  int64_t least_rows() const { return vit() ? 1 : 2; }
  /// The depth of a parameter by its name in `named_parameters`, for layer decay.
  int64_t layer_of(const std::string& parameter) const;
  /// "ViT: 4 layers, 4 heads, width 128, patches of 4 pixels: 0.83 M parameters".
  std::string to_string() const;
  /// Copies weights in, with the changes that `nn::load_pretrained` makes and returns.
  std::vector<std::string> load_pretrained(nn::NamedTensors weights) const;
  /// Null if the network is none.
  nn::Vit* vit() const;

 private:
  std::variant<std::unique_ptr<nn::Vit>, std::unique_ptr<nn::ResNet>> network_;
};

}  // namespace reprise::apps
