#include "reprise/apps/jepa/model.h"

#include "reprise/apps/common/training_run.h"
#include "reprise/apps/jepa/options.h"
#include "reprise/core/quote.h"
#include "reprise/io/folder.h"
#include "reprise/nn/dialects/pretrained.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::jepa {
namespace {

// The numbers of a model, by the names that checkpoints have them under.
template <class Options>
using Numbers = std::vector<std::pair<const char*, int64_t Options::*>>;

const Numbers<nn::JepaOptions>& numbers_of(const nn::JepaOptions&) {
  static const Numbers<nn::JepaOptions> numbers = {{"image", &nn::JepaOptions::image},
                                                   {"patch", &nn::JepaOptions::patch},
                                                   {"channels", &nn::JepaOptions::channels},
                                                   {"width", &nn::JepaOptions::width},
                                                   {"layers", &nn::JepaOptions::layers},
                                                   {"heads", &nn::JepaOptions::heads},
                                                   {"predictor_width", &nn::JepaOptions::predictor_width},
                                                   {"predictor_layers", &nn::JepaOptions::predictor_layers},
                                                   {"predictor_heads", &nn::JepaOptions::predictor_heads}};
  return numbers;
}

const Numbers<nn::LeJepaOptions>& numbers_of(const nn::LeJepaOptions&) {
  static const Numbers<nn::LeJepaOptions> numbers = {{"image", &nn::LeJepaOptions::image},
                                                     {"patch", &nn::LeJepaOptions::patch},
                                                     {"channels", &nn::LeJepaOptions::channels},
                                                     {"width", &nn::LeJepaOptions::width},
                                                     {"layers", &nn::LeJepaOptions::layers},
                                                     {"heads", &nn::LeJepaOptions::heads},
                                                     {"projector_width", &nn::LeJepaOptions::hidden},
                                                     {"features", &nn::LeJepaOptions::features}};
  return numbers;
}

// Only a LeJepa says which loss it is for.
constexpr const char* loss_key = "loss";

Pretrained pretrained_from(const Description& description) {
  Pretrained p;
  if (description.contains(loss_key)) {
    const std::string& loss = entry_in(description, loss_key);
    check(loss == lejepa_loss, "\"", loss_key, "\" of the model is ", quote(loss), ", not ", lejepa_loss);
    p.model = nn::LeJepaOptions();
  }
  const int64_t channels = std::visit(
      [&](auto& o) {
        for (auto [key, member] : numbers_of(o)) o.*member = number_in_entry<int64_t>(description, key);
        return o.channels;
      },
      p.model);
  p.mean = numbers_in(description, "mean", channels);
  p.deviation = numbers_in(description, "deviation", channels);
  p.apply_exif = is_first(description, "exif", "apply", "ignore");
  return p;
}

// Sizes that the description gives and the tensors do not have would be allocated before `load_state_dict` compares
// them.
class Described {
 public:
  explicit Described(const nn::NamedTensors& tensors) : tensors_(tensors) {}

  void expect_blocks(const std::string& prefix, int64_t layers) const {
    int64_t found = 0;
    for (const auto& [name, tensor] : tensors_)
      found += name.starts_with(prefix) && name.ends_with(".norm1.weight");
    expect("layers", {found}, {layers});
  }
  void expect_shape(const std::string& what, const std::string& of, const Shape& want) const {
    Shape got;
    for (const auto& [name, tensor] : tensors_)
      if (name == of) got = tensor.shape();
    expect(what, got, want);
  }

 private:
  static void expect(const std::string& what, const Shape& got, const Shape& want) {
    check(got == want, "its description of the model has ", what, " ", want, ", its tensors ", got);
  }
  const nn::NamedTensors& tensors_;
};

void check_rest(const nn::JepaOptions& o, int64_t patches, const Described& tensors) {
  tensors.expect_blocks("predictor.predictor_blocks.", o.predictor_layers);
  tensors.expect_shape("predictor_positions", "predictor.predictor_pos_embed",
                       {1, patches, o.predictor_width});
}
void check_rest(const nn::LeJepaOptions& o, int64_t, const Described& tensors) {
  tensors.expect_shape("projector_width", "hidden.bias", {o.hidden});
  tensors.expect_shape("features", "projection.bias", {o.features});
}

template <class Options>
void check_described(const Options& o, const nn::NamedTensors& given) {
  check(o.patch > 0 && o.image <= (1 << 14), "its description of the model has an image of ", o.image,
        " pixels and patches of ", o.patch);
  const Described tensors(given);
  const int64_t side = o.image / o.patch;
  tensors.expect_blocks("encoder.blocks.", o.layers);
  tensors.expect_shape("positions", "encoder.pos_embed", {1, side * side, o.width});
  check_rest(o, side * side, tensors);
}

}  // namespace

Description describe(const Pretrained& p) {
  Description description = {{"mean", joined(p.mean)},
                             {"deviation", joined(p.deviation)},
                             {"exif", p.apply_exif ? "apply" : "ignore"}};
  if (std::holds_alternative<nn::LeJepaOptions>(p.model)) description[loss_key] = lejepa_loss;
  std::visit(
      [&](const auto& o) {
        description["drop_path"] = shortest(o.drop_path);
        for (auto [key, member] : numbers_of(o)) description[key] = std::to_string(o.*member);
      },
      p.model);
  return description;
}

data::RecipeOptions recipe_options(const Pretrained& p, data::Decoding decoding) {
  return {.image = std::visit([](const auto& o) { return o.image; }, p.model),
          .crop_pct = 1,
          .statistics = {.mean = p.mean, .deviation = p.deviation},
          .apply_exif = p.apply_exif,
          .decoding = decoding};
}
data::Pipeline evaluation_pipeline(const Pretrained& p) { return data::photo_eval(recipe_options(p)); }

Network make_network(const Pretrained& p, Device device) {
  if (auto* options = std::get_if<nn::LeJepaOptions>(&p.model)) {
    auto model = std::make_unique<nn::LeJepa>(*options, device);
    nn::Vit* encoder = &model->encoder;
    return {std::move(model), encoder};
  }
  auto model = std::make_unique<nn::Jepa>(std::get<nn::JepaOptions>(p.model), device);
  nn::Vit* encoder = &model->target_encoder;
  return {std::move(model), encoder};
}

void load_weights(nn::Module& model, const std::string& from) {
  model.load_state_dict(nn::with_dtypes_of(model, train::load_checkpoint(from, false).parameters));
}

LoadedRun load_run(const std::string& run, Device device) {
  std::string path = run.empty() ? newest_run("final-weight-decay") : run;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return train::under_option("--run", [&] {
    LoadedRun loaded;
    train::Checkpoint checkpoint = train::load_checkpoint(path, false);
    check(!checkpoint.model.empty(), path,
          ": holds weights only, not a run: give a run folder or a checkpoint");
    train::about(checkpoint.path, [&] {
      loaded.pretrained = pretrained_from(checkpoint.model);
      std::visit([&](const auto& o) { check_described(o, checkpoint.parameters); }, loaded.pretrained.model);
      loaded.network = make_network(loaded.pretrained, device);
      nn::Module& model = *loaded.network.model;
      model.load_state_dict(nn::with_dtypes_of(model, checkpoint.parameters));
    });
    loaded.folder = io::exists(path + "/model.safetensors") ? run_folder_of(path) : path;
    return loaded;
  });
}

}  // namespace reprise::apps::jepa
