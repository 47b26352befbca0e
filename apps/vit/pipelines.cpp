#include "reprise/apps/vit/pipelines.h"

#include "reprise/apps/vit/recipes.h"
#include "reprise/data/recipes.h"

namespace reprise::apps::vit {
namespace {

data::RecipeOptions recipe_options_of(const Classifier& c) {
  return {.image = c.image,
          .crop_pct = c.crop,
          .statistics = {.mean = c.mean, .deviation = c.deviation},
          .apply_exif = c.apply_exif};
}

constexpr std::pair<const char*, data::Pipeline (*)(const data::RecipeOptions&)> training_pipelines[] = {
    {"fashion", data::fashion_train},   {"cifar", data::cutout_train},  {"deit", data::deit_train},
    {"deit3", data::deit3_train},       {"vit5", data::deit3_train},    {"simple", data::simple_train},
    {"finetune", data::finetune_train}, {"resnet", data::resnet_train}, {"resnet-cifar", data::cifar_train}};

}  // namespace

data::Pipeline evaluation_pipeline(const Classifier& c) {
  const bool is_resnet = std::holds_alternative<nn::ResNetOptions>(c.model);
  return is_resnet ? data::resnet_eval(recipe_options_of(c)) : data::photo_eval(recipe_options_of(c));
}

data::Pipeline training_pipeline(const Classifier& c, const std::string& recipe, data::Decoding decoding) {
  data::RecipeOptions options = recipe_options_of(c);
  options.decoding = decoding;
  for (const auto& [name, pipeline] : training_pipelines)
    if (recipe == name) return pipeline(options);
  fail("--recipe ", recipe, ": there are ", recipe_names);
}

}  // namespace reprise::apps::vit
