// Profiles as JSON: measured on one machine, used on another.
#include <cmath>
#include <set>

#include "reprise/apps/scale/step_profile.h"
#include "reprise/core/error.h"
#include "reprise/io/file.h"
#include "reprise/io/json.h"

namespace reprise::apps::scale {
namespace {

constexpr uint64_t largest_file = 16 << 20;

class ProfileReader {
 public:
  explicit ProfileReader(const std::string& path)
      : text_(io::read_file(path, largest_file)), path_(path), json_(text_, path) {}

  StepProfile read() {
    members({"model", "origin", "measured", "tokens", "update_seconds", "layers"},
            [&](const std::string& key) {
              if (key == "model") profile_.model = json_.string();
              if (key == "origin") profile_.origin = json_.string();
              if (key == "measured") profile_.is_measured = json_.boolean();
              if (key == "tokens") profile_.tokens = whole();
              if (key == "update_seconds") profile_.update_seconds = amount();
              if (key == "layers") json_.array([&] { profile_.layers.push_back(layer()); });
            });
    json_.end();
    check(!profile_.layers.empty(), path_, ": has no layers");
    check(profile_.numel() > 0, path_, ": its layers have no parameters");
    return std::move(profile_);
  }

 private:
  Layer layer() {
    Layer layer;
    members(
        {"name", "parameters", "forward_seconds", "backward_seconds", "saved_bytes", "output_bytes", "block"},
        [&](const std::string& key) {
          if (key == "name") layer.name = json_.string();
          if (key == "parameters") json_.array([&] { layer.parameters.push_back(whole()); });
          if (key == "forward_seconds") layer.forward_seconds = amount();
          if (key == "backward_seconds") layer.backward_seconds = amount();
          if (key == "saved_bytes") layer.saved_bytes = amount();
          if (key == "output_bytes") layer.output_bytes = amount();
          if (key == "block") layer.is_block = json_.boolean();
        });
    return layer;
  }

  // An object with these members, each once.
  template <class Read>
  void members(std::set<std::string> missing, const Read& read) {
    const size_t begin = json_.offset();
    json_.object([&](const std::string& key) {
      if (!missing.erase(key)) json_.fail_at(json_.offset(), "'" + key + "' is unknown here, or there twice");
      read(key);
    });
    if (!missing.empty()) json_.fail_at(begin, "'" + *missing.begin() + "' is missing");
  }

  int64_t whole() {
    const size_t begin = json_.offset();
    const int64_t value = json_.integer();
    if (value < 1 || value > int64_t(1) << 50) json_.fail_at(begin, "not a number from 1 to 2^50");
    return value;
  }

  double amount() {
    const size_t begin = json_.offset();
    const double value = json_.number();
    if (!(value >= 0) || value > 1e18) json_.fail_at(begin, "not a number from 0 to 1e18");
    return value;
  }

  std::string text_, path_;
  io::JsonReader json_;
  StepProfile profile_;
};

}  // namespace

std::string profile_to_json(const StepProfile& profile) {
  using io::json_number, io::json_quote;
  std::string text = "{\"model\": " + json_quote(profile.model) +
                     ", \"origin\": " + json_quote(profile.origin) +
                     ", \"measured\": " + (profile.is_measured ? "true" : "false") +
                     ",\n \"tokens\": " + std::to_string(profile.tokens) +
                     ", \"update_seconds\": " + json_number(profile.update_seconds) + ",\n \"layers\": [";
  for (size_t i = 0; i < profile.layers.size(); ++i) {
    const Layer& layer = profile.layers[i];
    std::string parameters;
    for (int64_t numel : layer.parameters)
      parameters += (parameters.empty() ? "" : ", ") + std::to_string(numel);
    text += std::string(i == 0 ? "" : ",") + "\n  {\"name\": " + json_quote(layer.name) +
            ", \"parameters\": [" + parameters +
            "],\n   \"forward_seconds\": " + json_number(layer.forward_seconds) +
            ", \"backward_seconds\": " + json_number(layer.backward_seconds) +
            ",\n   \"saved_bytes\": " + json_number(layer.saved_bytes) +
            ", \"output_bytes\": " + json_number(layer.output_bytes) +
            ", \"block\": " + (layer.is_block ? "true" : "false") + "}";
  }
  return text + "]}\n";
}

StepProfile profile_from_json(const std::string& path) { return ProfileReader(path).read(); }

}  // namespace reprise::apps::scale
