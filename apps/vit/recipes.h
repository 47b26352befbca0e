// Recipes: what a published training is made of, as values of options that the user left open.
#pragma once

#include <map>
#include <string>

namespace reprise::apps::vit {

inline constexpr const char* recipe_names =
    "fashion, cifar, deit, deit3, vit5, simple, finetune, resnet and resnet-cifar";

/// The options of a recipe by their long names. `rows` per step: rates of some recipes are for so many. Error listing
/// the names if there is no such recipe.
std::map<std::string, std::string> recipe_options(const std::string& name, int64_t rows);

}  // namespace reprise::apps::vit
