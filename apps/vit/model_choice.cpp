#include "reprise/apps/vit/model_choice.h"

#include <set>

#include "reprise/apps/common/command_line.h"
#include "reprise/apps/common/config_file.h"
#include "reprise/apps/vit/recipes.h"
#include "reprise/nn/models/resnet.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::vit {
namespace {

constexpr std::string_view resnet_prefix = "resnet";

}  // namespace

bool is_resnet(const std::string& model) { return model.starts_with(resnet_prefix); }

std::string_view resnet_depth(const std::string& model) {
  return std::string_view(model).substr(resnet_prefix.size());
}

std::map<std::string, std::string> recipe_for(CLI::App& train, const TrainCommand& c) {
  std::map<std::string, std::string> values = recipe_options(c.recipe, c.batch * c.trainer.accumulate);
  auto own = values.find("model");
  const bool for_resnet = own != values.end() && is_resnet(own->second);
  if (c.preset.empty() || is_resnet(c.preset) == for_resnet) return values;
  std::set<std::string> of_network = names_in(*train.get_option_group(vit_group));
  of_network.insert({"stem", "width"});
  std::erase_if(values, [&](const auto& value) { return of_network.contains(value.first); });
  return values;
}

void take_model_defaults(CLI::App& train, const std::string& model) {
  if (!is_resnet(model)) return take_preset(train, model);
  const nn::ResNetOptions preset =
      train::under_option("--model", [&] { return nn::resnet_preset(resnet_depth(model)); });
  take_defaults(train, {{"width", std::to_string(preset.width)}, {"stem", "imagenet"}}, "--model " + model);
}

void keep_options_of_model(CLI::App& train, const TrainCommand& c,
                           const std::map<std::string, std::string>& places) {
  const bool of_resnet = c.stem == "imagenet" || c.stem == "cifar";
  if (!is_resnet(c.preset)) {
    check(!of_resnet, with_places("--stem " + c.stem + ": a vision transformer has patch or conv", places));
    return;
  }
  check(of_resnet, with_places("--stem " + c.stem + ": a ResNet has imagenet or cifar", places));
  CLI::App* group = train.get_option_group(vit_group);
  const std::string given = given_in(*group);
  check(given.empty(), with_places(given + ": --model " + c.preset + " has no such option", places));
  train.remove_subcommand(group);
}

}  // namespace reprise::apps::vit
