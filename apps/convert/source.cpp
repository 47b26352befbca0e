#include "reprise/apps/convert/source.h"

#include "reprise/apps/common/models/given_weights.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/io/text/end_tokens.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::convert {
namespace {

// Of the networks that reprise-jepa trains the one that is asked for.
void take_part(GivenWeights& given, const std::string& part, const std::string& path) {
  const std::string probed = probed_encoder(given.description);
  const bool has_parts = !nn::part_of(given.tensors, probed).empty();
  check(has_parts || part.empty(), "--part ", part, ": ", path, " is no run of reprise-jepa");
  check(!has_parts || !part.empty(), path, ": holds the networks of reprise-jepa: name one by --part encoder",
        probed == "encoder" ? "" : " or --part target_encoder");
  if (!has_parts) return;
  given.tensors = nn::part_of(given.tensors, part);
  check(!given.tensors.empty(), "--part ", part, ": ", path, " has no such network, but --part ", probed);
}

std::vector<std::string> numbered(int64_t classes) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

// What reprise-jepa says of its encoders.
Classifier encoder_of(const GivenWeights& given, nn::VitOptions o) {
  o.positions = nn::Positions::sincos;
  o.drop_path = number_in_entry<double>(given.description, "drop_path");
  Classifier c;
  c.image = o.image;
  c.model = o;
  c.mean = numbers_in(given.description, "mean", o.channels);
  c.deviation = numbers_in(given.description, "deviation", o.channels);
  return c;
}

// What the description or the config says of a classifier beside its network.
Classifier classifier_of(const GivenWeights& given, const ModelConfig& config, int64_t classes,
                         size_t channels, std::vector<std::string>& assumed) {
  Classifier c;
  if (!given.description.empty()) {
    c = classifier_from(given.description);
  } else {
    c.class_names = config.class_names;
    c.mean = config.mean, c.deviation = config.deviation;
    c.crop = config.crop.value_or(1);
  }
  if (int64_t(c.class_names.size()) != classes) {
    check(c.class_names.empty(), config.file, ": ", c.class_names.size(), " names of classes, the head has ",
          classes);
    c.class_names = numbered(classes);
  }
  if (c.mean.size() != channels || c.deviation.size() != channels) {
    c.mean = c.deviation = std::vector<double>(channels, 0.5);
    assumed.push_back("nothing says how pixels are normalised: mean 0.5, deviation 0.5");
  }
  return c;
}

// What the description or the config adds to what the shapes tell.
Classifier vit_classifier(const GivenWeights& given, const ModelConfig& config, nn::VitOptions o,
                          std::vector<std::string>& assumed) {
  Classifier c = classifier_of(given, config, o.classes, size_t(o.channels), assumed);
  if (given.description.empty()) {
    o.norm_eps = config.norm_eps.value_or(o.norm_eps);
  } else {
    const auto* own = std::get_if<nn::VitOptions>(&c.model);
    check(own, "its description of the model is of a ResNet, its tensors are a ViT's");
    for (auto member : {&nn::VitOptions::norm_eps, &nn::VitOptions::dropout, &nn::VitOptions::drop_path})
      o.*member = own->*member;
    if (o.layer_scale > 0) o.layer_scale = own->layer_scale;
    o.positions = own->positions;
  }
  check(config.activation.empty() || config.activation == "gelu", config.file, ": hidden_act ",
        config.activation, ": no such model here, only gelu");
  c.image = o.image;
  c.model = o;
  return c;
}

// The shapes tell all of a network; of which images it is, none.
Classifier resnet_classifier(const GivenWeights& given, const ModelConfig& config, const nn::ResNetOptions& o,
                             std::vector<std::string>& assumed) {
  Classifier c = classifier_of(given, config, o.classes, size_t(o.channels), assumed);
  if (given.description.empty()) {
    const int64_t of_imagenet = 224, of_cifar = 32;
    c.image = o.stem == nn::ResNetStem::imagenet ? of_imagenet : of_cifar;
    assumed.push_back(reprise::detail::join("nothing says how large images are: ", c.image, " pixels"));
  }
  c.model = o;
  return c;
}

// In the folder of weights, or with the tokenizer of their run.
std::vector<int32_t> end_tokens_beside(const std::string& folder) {
  const std::vector<int32_t> ids = io::read_end_tokens(folder);
  return ids.empty() ? io::read_end_tokens(run_folder_of(folder) + "/tokenizer") : ids;
}

}  // namespace

Source read_source(const std::string& path, const std::string& part, int64_t heads) {
  GivenWeights given = read_given_weights(path);
  take_part(given, part, path);
  const ModelConfig config = read_model_config(given.folder);
  leave_out_tied_head(given, config);
  return train::about(path, [&] {
    Source source{.weights = nn::read_dialect(std::move(given.tensors))};
    const nn::ModelOptions& options = source.weights.options;
    if (const auto* vit = std::get_if<nn::VitOptions>(&options)) {
      nn::VitOptions whole = *vit;
      whole.heads = heads_of(given, config, heads, vit->width, 1024, source.assumed);
      source.classifier = !part.empty() && !given.description.empty()
                              ? encoder_of(given, whole)
                              : vit_classifier(given, config, whole, source.assumed);
    }
    if (const auto* resnet = std::get_if<nn::ResNetOptions>(&options))
      source.classifier = resnet_classifier(given, config, *resnet, source.assumed);
    if (is_language_model(options)) {
      source.language = language_options_of(given, config, options, heads, source.assumed);
      source.end_tokens = end_tokens_beside(given.folder);
    }
    return source;
  });
}

}  // namespace reprise::apps::convert
