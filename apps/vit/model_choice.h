// What --model chooses among the networks: its own defaults, and which options it has.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "reprise/apps/vit/options.h"

namespace CLI {
class App;
}

namespace reprise::apps::vit {

/// The options that only a vision transformer has are a group of this name.
inline constexpr const char* vit_group = "Vision transformer";

bool is_resnet(const std::string& model);
/// "18" of "resnet18".
std::string_view resnet_depth(const std::string& model);

/// The recipe's options; without those of its network where --model is given and of the other kind.
std::map<std::string, std::string> recipe_for(CLI::App& train, const TrainCommand& command);

/// What is left open of the network's size. Error naming --model if there is no such one.
void take_model_defaults(CLI::App& train, const std::string& model);

/// Takes away the options that the network of --model has not: no config.toml keeps them. Error naming those that were
/// given, and their `places`.
void keep_options_of_model(CLI::App& train, const TrainCommand& command,
                           const std::map<std::string, std::string>& places);

}  // namespace reprise::apps::vit
