#include "reprise/apps/vit/pipelines.h"

#include "reprise/data/recipes.h"

namespace reprise::apps::vit {
namespace {

data::RecipeOptions recipe_options_of(const Classifier& c) {
  return {.image = c.model.image,
          .crop_pct = c.crop,
          .statistics = {.mean = c.mean, .deviation = c.deviation},
          .apply_exif = c.apply_exif};
}

constexpr std::pair<const char*, data::Pipeline (*)(const data::RecipeOptions&)> training_pipelines[] = {
    {"fashion", data::fashion_train}, {"cifar", data::cifar_train},   {"deit", data::deit_train},
    {"deit3", data::deit3_train},     {"simple", data::simple_train}, {"finetune", data::finetune_train}};

}  // namespace

data::Pipeline evaluation_pipeline(const Classifier& c) { return data::photo_eval(recipe_options_of(c)); }

data::Pipeline training_pipeline(const Classifier& c, const std::string& recipe) {
  for (const auto& [name, pipeline] : training_pipelines)
    if (recipe == name) return pipeline(recipe_options_of(c));
  fail("--recipe ", recipe, ": there are fashion, cifar, deit, deit3, simple and finetune");
}

}  // namespace reprise::apps::vit
