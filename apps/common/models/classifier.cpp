#include "reprise/apps/common/models/classifier.h"

#include <algorithm>

namespace reprise::apps {
namespace {

// The whole numbers and the numbers of a model, by the names that checkpoints have them under.
constexpr std::pair<const char*, int64_t nn::VitOptions::*> whole_numbers[] = {
    {"image", &nn::VitOptions::image},       {"patch", &nn::VitOptions::patch},
    {"channels", &nn::VitOptions::channels}, {"classes", &nn::VitOptions::classes},
    {"width", &nn::VitOptions::width},       {"layers", &nn::VitOptions::layers},
    {"heads", &nn::VitOptions::heads},       {"registers", &nn::VitOptions::registers}};
constexpr std::pair<const char*, double nn::VitOptions::*> numbers[] = {
    {"layer_scale", &nn::VitOptions::layer_scale},
    {"dropout", &nn::VitOptions::dropout},
    {"drop_path", &nn::VitOptions::drop_path},
    {"norm_eps", &nn::VitOptions::norm_eps}};
constexpr std::pair<const char*, bool nn::VitOptions::*> flags[] = {
    {"class_token", &nn::VitOptions::class_token},
    {"no_embed_class", &nn::VitOptions::no_embed_class},
    {"qkv_bias", &nn::VitOptions::qkv_bias}};

}  // namespace

Classifier classifier_from(const Description& description) {
  Classifier c;
  for (auto [key, member] : whole_numbers) c.model.*member = number_in_entry<int64_t>(description, key);
  for (auto [key, member] : numbers) c.model.*member = number_in_entry<double>(description, key);
  for (auto [key, member] : flags) c.model.*member = is_first(description, key, "1", "0");
  c.model.stem = is_first(description, "stem", "patch", "conv") ? nn::Stem::patch : nn::Stem::conv;
  c.model.pool = is_first(description, "pool", "token", "avg") ? nn::Pool::token : nn::Pool::avg;
  c.model.positions = is_first(description, "positions", "learned", "sincos") ? nn::Positions::learned
                                                                              : nn::Positions::sincos;
  c.class_names = split(entry_in(description, "class_names"), '\n');
  check(int64_t(c.class_names.size()) == c.model.classes, "its description of the model has ",
        c.class_names.size(), " class names for ", c.model.classes, " classes");
  c.mean = numbers_in(description, "mean", c.model.channels);
  c.deviation = numbers_in(description, "deviation", c.model.channels);
  c.crop = number_in_entry<double>(description, "crop");
  check(c.crop > 0 && c.crop <= 1, "\"crop\" of the model is ", c.crop, ", not above 0 and at most 1");
  c.apply_exif = is_first(description, "exif", "apply", "ignore");
  return c;
}

Description describe(const Classifier& c) {
  Description description = {
      {"stem", c.model.stem == nn::Stem::patch ? "patch" : "conv"},
      {"pool", c.model.pool == nn::Pool::token ? "token" : "avg"},
      {"positions", c.model.positions == nn::Positions::learned ? "learned" : "sincos"},
      {"mean", joined(c.mean)},
      {"deviation", joined(c.deviation)},
      {"crop", shortest(c.crop)},
      {"exif", c.apply_exif ? "apply" : "ignore"}};
  for (auto [key, member] : whole_numbers) description[key] = std::to_string(c.model.*member);
  for (auto [key, member] : numbers) description[key] = shortest(c.model.*member);
  for (auto [key, member] : flags) description[key] = c.model.*member ? "1" : "0";
  std::string& names = description["class_names"];
  for (const std::string& name : c.class_names) {
    check(name.find('\n') == std::string::npos, "the name of class ", quote(name), " holds a line break");
    names += (names.empty() ? "" : "\n") + name;
  }
  return description;
}

}  // namespace reprise::apps
