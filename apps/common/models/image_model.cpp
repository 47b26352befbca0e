#include "reprise/apps/common/models/image_model.h"

#include <fmt/core.h>

#include "reprise/nn/dialects/pretrained.h"

namespace reprise::apps {
namespace {

std::string summary_of(const nn::VitOptions& o) {
  return fmt::format("ViT: {} layers, {} heads, width {}, patches of {} pixels", o.layers, o.heads, o.width,
                     o.patch);
}

std::string summary_of(const nn::ResNetOptions& o) {
  int64_t blocks = 0;
  for (int64_t of_stage : o.blocks) blocks += of_stage;
  return fmt::format("ResNet: {} {} blocks, width {}, stem of {}", blocks,
                     o.block == nn::ResNetBlock::basic ? "basic" : "bottleneck", o.width,
                     o.stem == nn::ResNetStem::imagenet ? "ImageNet" : "CIFAR");
}

}  // namespace

ImageModel::ImageModel(const ImageModelOptions& options, Device device) {
  if (const auto* resnet = std::get_if<nn::ResNetOptions>(&options))
    network_ = std::make_unique<nn::ResNet>(*resnet, device);
  else
    network_ = std::make_unique<nn::Vit>(std::get<nn::VitOptions>(options), device);
}

Tensor ImageModel::operator()(const Tensor& images) const {
  return std::visit([&](const auto& network) { return (*network)(images); }, network_);
}

nn::Module& ImageModel::module() const {
  return std::visit([](const auto& network) -> nn::Module& { return *network; }, network_);
}

nn::BlockStack& ImageModel::blocks() const {
  return std::visit([](const auto& network) -> nn::BlockStack& { return network->blocks; }, network_);
}

int64_t ImageModel::classes() const {
  return std::visit([](const auto& network) { return network->options().classes; }, network_);
}

Device ImageModel::device() const { return module().parameters().at(0).device(); }

int64_t ImageModel::layer_of(const std::string& parameter) const {
  return std::visit([&](const auto& network) { return network->layer_of(parameter); }, network_);
}

std::string ImageModel::to_string() const {
  return std::visit([](const auto& network) { return summary_of(network->options()); }, network_) +
         fmt::format(": {:.2f} M parameters", double(module().parameter_count()) / 1e6);
}

std::vector<std::string> ImageModel::load_pretrained(nn::NamedTensors weights) const {
  return std::visit([&](const auto& network) { return nn::load_pretrained(*network, std::move(weights)); },
                    network_);
}

nn::Vit* ImageModel::vit() const {
  const auto* vit = std::get_if<std::unique_ptr<nn::Vit>>(&network_);
  return vit ? vit->get() : nullptr;
}

}  // namespace reprise::apps
