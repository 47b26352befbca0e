#include "reprise/apps/vit/model.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "reprise/apps/common/training_run.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/io/folder.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps::vit {
namespace {

using Description = std::map<std::string, std::string>;

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

const std::string& entry_in(const Description& description, const std::string& key) {
  auto found = description.find(key);
  check(found != description.end(), "its description of the model lacks \"", key, "\"");
  return found->second;
}

template <class Number>
Number number_of(const std::string& key, const std::string& text) {
  std::optional<Number> value = number_in<Number>(text);
  check(value && *value >= 0 && *value <= Number(1e9), "\"", key, "\" of the model is ", quote(text),
        ", not ", std::is_integral_v<Number> ? "a whole number" : "a number", " from 0 to 1e9");
  return *value;
}

std::string shortest(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string joined(const std::vector<double>& values) {
  std::string text;
  for (double value : values) text += (text.empty() ? "" : " ") + shortest(value);
  return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<double> numbers_in(const Description& description, const std::string& key, int64_t count) {
  std::vector<double> values;
  for (const std::string& part : split(entry_in(description, key), ' '))
    values.push_back(number_of<double>(key, part));
  check(int64_t(values.size()) == count, "\"", key, "\" of the model has ", values.size(), " numbers for ",
        count, " channels");
  return values;
}

// One of two words.
bool is_first(const Description& description, const std::string& key, std::string_view first,
              std::string_view second) {
  const std::string& text = entry_in(description, key);
  check(text == first || text == second, "\"", key, "\" of the model is ", quote(text), ", not ", first,
        " or ", second);
  return text == first;
}

Classifier classifier_from(const Description& description) {
  Classifier c;
  for (auto [key, member] : whole_numbers)
    c.model.*member = number_of<int64_t>(key, entry_in(description, key));
  for (auto [key, member] : numbers) c.model.*member = number_of<double>(key, entry_in(description, key));
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
  c.crop = number_of<double>("crop", entry_in(description, "crop"));
  check(c.crop > 0 && c.crop <= 1, "\"crop\" of the model is ", c.crop, ", not above 0 and at most 1");
  c.apply_exif = is_first(description, "exif", "apply", "ignore");
  return c;
}

// Sizes that the description gives and the tensors do not have would be allocated before `load_state_dict` compares
// them.
void check_described(const nn::VitOptions& described, const nn::NamedTensors& tensors) {
  int64_t layers = 0;
  auto shape_of = [&](const std::string& name) {
    for (const auto& [known, tensor] : tensors)
      if (known == name) return tensor.shape();
    return Shape{};
  };
  for (const auto& [name, tensor] : tensors)
    layers += name.starts_with("blocks.") && name.ends_with(".norm1.weight");
  auto expect = [&](const char* what, const Shape& got, const Shape& want) {
    check(got == want, "its description of the model has ", what, " ", want, ", its tensors ", got);
  };
  expect("layers", {layers}, {described.layers});
  expect("classes and width", shape_of("head.weight"), {described.classes, described.width});
  check(described.patch > 0 && described.image <= (1 << 14), "its description of the model has an image of ",
        described.image, " pixels and patches of ", described.patch);
}

const nn::NamedTensors& weights_of(const train::Checkpoint& checkpoint) {
  return checkpoint.ema.empty() ? checkpoint.parameters : checkpoint.ema;
}

}  // namespace

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

void load_weights(nn::Vit& model, const std::string& from) {
  train::Checkpoint checkpoint = train::load_checkpoint(from, false);
  nn::NamedTensors weights = weights_of(checkpoint);
  nn::NamedTensors own = model.state_dict();
  for (auto& [name, tensor] : weights) {
    if (!name.starts_with("head.")) continue;
    auto same = std::find_if(own.begin(), own.end(), [&](const auto& entry) { return entry.first == name; });
    if (same == own.end() || same->second.shape() == tensor.shape()) continue;
    train::report("{} of {} is for {} classes: it is made anew for {}\n", name, train::for_output(from),
                  tensor.size(0), same->second.size(0));
    tensor = same->second;
  }
  model.load_state_dict(weights);
}

LoadedRun load_run(const std::string& run, Device device) {
  LoadedRun loaded;
  std::string path = run.empty() ? newest_run("patch") : run;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return train::under_option("--run", [&] {
    train::Checkpoint checkpoint = train::load_checkpoint(path, false);
    check(!checkpoint.model.empty(), path,
          ": holds weights only, not a run: give a run folder or a checkpoint");
    train::about(checkpoint.path, [&] {
      loaded.classifier = classifier_from(checkpoint.model);
      check_described(loaded.classifier.model, weights_of(checkpoint));
      loaded.model = std::make_unique<nn::Vit>(loaded.classifier.model, device);
      loaded.model->load_state_dict(weights_of(checkpoint));
    });
    loaded.folder = io::exists(path + "/model.safetensors") ? run_folder_of(path) : path;
    return std::move(loaded);
  });
}

}  // namespace reprise::apps::vit
