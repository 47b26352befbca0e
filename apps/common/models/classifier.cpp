#include "reprise/apps/common/models/classifier.h"

#include <algorithm>

namespace reprise::apps {
namespace {

// The whole numbers and the numbers of a Vit, by the names that checkpoints have them under.
constexpr std::pair<const char*, int64_t nn::VitOptions::*> vit_whole_numbers[] = {
    {"image", &nn::VitOptions::image},       {"patch", &nn::VitOptions::patch},
    {"channels", &nn::VitOptions::channels}, {"classes", &nn::VitOptions::classes},
    {"width", &nn::VitOptions::width},       {"layers", &nn::VitOptions::layers},
    {"heads", &nn::VitOptions::heads},       {"registers", &nn::VitOptions::registers}};
constexpr std::pair<const char*, double nn::VitOptions::*> vit_numbers[] = {
    {"layer_scale", &nn::VitOptions::layer_scale},
    {"dropout", &nn::VitOptions::dropout},
    {"drop_path", &nn::VitOptions::drop_path},
    {"norm_eps", &nn::VitOptions::norm_eps}};
constexpr std::pair<const char*, bool nn::VitOptions::*> flags[] = {
    {"class_token", &nn::VitOptions::class_token},
    {"no_embed_class", &nn::VitOptions::no_embed_class},
    {"qkv_bias", &nn::VitOptions::qkv_bias}};

constexpr std::pair<const char*, int64_t nn::ResNetOptions::*> resnet_numbers[] = {
    {"channels", &nn::ResNetOptions::channels},
    {"classes", &nn::ResNetOptions::classes},
    {"width", &nn::ResNetOptions::width}};

nn::VitOptions vit_from(const Description& description) {
  nn::VitOptions o;
  for (auto [key, member] : vit_whole_numbers) o.*member = number_in_entry<int64_t>(description, key);
  for (auto [key, member] : vit_numbers) o.*member = number_in_entry<double>(description, key);
  for (auto [key, member] : flags) o.*member = is_first(description, key, "1", "0");
  // Descriptions from before these were there have none of them.
  auto flag = [&](const char* key) {
    return description.contains(key) && is_first(description, key, "1", "0");
  };
  o.norm = flag("rms_norm") ? nn::NormKind::rms : nn::NormKind::layer;
  o.qk_norm = flag("qk_norm");
  o.rope = flag("rope");
  o.stem = is_first(description, "stem", "patch", "conv") ? nn::Stem::patch : nn::Stem::conv;
  o.pool = is_first(description, "pool", "token", "avg") ? nn::Pool::token : nn::Pool::avg;
  o.positions = is_first(description, "positions", "learned", "sincos") ? nn::Positions::learned
                                                                        : nn::Positions::sincos;
  return o;
}

Description described(const nn::VitOptions& o) {
  Description description = {{"stem", o.stem == nn::Stem::patch ? "patch" : "conv"},
                             {"pool", o.pool == nn::Pool::token ? "token" : "avg"},
                             {"positions", o.positions == nn::Positions::learned ? "learned" : "sincos"}};
  for (auto [key, member] : vit_whole_numbers) description[key] = std::to_string(o.*member);
  for (auto [key, member] : vit_numbers) description[key] = shortest(o.*member);
  for (auto [key, member] : flags) description[key] = o.*member ? "1" : "0";
  description["rms_norm"] = o.norm == nn::NormKind::rms ? "1" : "0";
  description["qk_norm"] = o.qk_norm ? "1" : "0";
  description["rope"] = o.rope ? "1" : "0";
  return description;
}

nn::ResNetOptions resnet_from(const Description& description) {
  nn::ResNetOptions o{.blocks = {}};
  for (auto [key, member] : resnet_numbers) o.*member = number_in_entry<int64_t>(description, key);
  o.stem =
      is_first(description, "stem", "imagenet", "cifar") ? nn::ResNetStem::imagenet : nn::ResNetStem::cifar;
  o.block = is_first(description, "block", "basic", "bottleneck") ? nn::ResNetBlock::basic
                                                                  : nn::ResNetBlock::bottleneck;
  for (const std::string& count : split(entry_in(description, "blocks"), ' '))
    o.blocks.push_back(number_of<int64_t>("blocks", count));
  return o;
}

Description described(const nn::ResNetOptions& o) {
  Description description = {{"architecture", "resnet"},
                             {"stem", o.stem == nn::ResNetStem::imagenet ? "imagenet" : "cifar"},
                             {"block", o.block == nn::ResNetBlock::basic ? "basic" : "bottleneck"}};
  for (auto [key, member] : resnet_numbers) description[key] = std::to_string(o.*member);
  std::string& blocks = description["blocks"];
  for (int64_t count : o.blocks) blocks += (blocks.empty() ? "" : " ") + std::to_string(count);
  return description;
}

// A Vit says no architecture.
bool is_resnet(const Description& description) {
  auto found = description.find("architecture");
  check(found == description.end() || found->second == "resnet", "\"architecture\" of the model is ",
        quote(found == description.end() ? "" : found->second), ", not resnet");
  return found != description.end();
}

}  // namespace

Classifier classifier_from(const Description& description) {
  Classifier c;
  if (is_resnet(description))
    c.model = resnet_from(description);
  else
    c.model = vit_from(description);
  const auto [channels, classes] = std::visit(
      [](const auto& o) {
        return std::pair{o.channels, o.classes};
      },
      c.model);
  c.image = number_in_entry<int64_t>(description, "image");
  c.class_names = split(entry_in(description, "class_names"), '\n');
  check(int64_t(c.class_names.size()) == classes, "its description of the model has ", c.class_names.size(),
        " class names for ", classes, " classes");
  c.mean = numbers_in(description, "mean", channels);
  c.deviation = numbers_in(description, "deviation", channels);
  c.crop = number_in_entry<double>(description, "crop");
  check(c.crop > 0 && c.crop <= 1, "\"crop\" of the model is ", c.crop, ", not above 0 and at most 1");
  c.apply_exif = is_first(description, "exif", "apply", "ignore");
  return c;
}

Description describe(const Classifier& c) {
  Description description = std::visit([](const auto& o) { return described(o); }, c.model);
  description["image"] = std::to_string(c.image);
  description["mean"] = joined(c.mean);
  description["deviation"] = joined(c.deviation);
  description["crop"] = shortest(c.crop);
  description["exif"] = c.apply_exif ? "apply" : "ignore";
  std::string& names = description["class_names"];
  for (const std::string& name : c.class_names) {
    check(name.find('\n') == std::string::npos, "the name of class ", quote(name), " holds a line break");
    names += (names.empty() ? "" : "\n") + name;
  }
  return description;
}

}  // namespace reprise::apps
