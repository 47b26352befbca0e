#include "reprise/apps/jepa/model.h"

#include "reprise/apps/common/training_run.h"
#include "reprise/data/recipes.h"
#include "reprise/data/transform.h"
#include "reprise/io/folder.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::jepa {
namespace {

// The numbers of a model, by the names that checkpoints have them under.
constexpr std::pair<const char*, int64_t nn::JepaOptions::*> whole_numbers[] = {
    {"image", &nn::JepaOptions::image},
    {"patch", &nn::JepaOptions::patch},
    {"channels", &nn::JepaOptions::channels},
    {"width", &nn::JepaOptions::width},
    {"layers", &nn::JepaOptions::layers},
    {"heads", &nn::JepaOptions::heads},
    {"predictor_width", &nn::JepaOptions::predictor_width},
    {"predictor_layers", &nn::JepaOptions::predictor_layers},
    {"predictor_heads", &nn::JepaOptions::predictor_heads}};

Pretrained pretrained_from(const Description& description) {
  Pretrained p;
  for (auto [key, member] : whole_numbers) p.model.*member = number_in_entry<int64_t>(description, key);
  p.mean = numbers_in(description, "mean", p.model.channels);
  p.deviation = numbers_in(description, "deviation", p.model.channels);
  p.apply_exif = is_first(description, "exif", "apply", "ignore");
  return p;
}

// Sizes that the description gives and the tensors do not have would be allocated before `load_state_dict` compares
// them.
void check_described(const nn::JepaOptions& o, const nn::NamedTensors& tensors) {
  check(o.patch > 0 && o.image <= (1 << 14), "its description of the model has an image of ", o.image,
        " pixels and patches of ", o.patch);
  auto expect = [](const std::string& what, const Shape& got, const Shape& want) {
    check(got == want, "its description of the model has ", what, " ", want, ", its tensors ", got);
  };
  const int64_t side = o.image / o.patch;
  int64_t layers = 0, predictor_layers = 0;
  Shape positions, predictor_positions;
  for (const auto& [name, tensor] : tensors) {
    layers += name.starts_with("encoder.blocks.") && name.ends_with(".norm1.weight");
    predictor_layers += name.starts_with("predictor.predictor_blocks.") && name.ends_with(".norm1.weight");
    if (name == "encoder.pos_embed") positions = tensor.shape();
    if (name == "predictor.predictor_pos_embed") predictor_positions = tensor.shape();
  }
  expect("layers", {layers, predictor_layers}, {o.layers, o.predictor_layers});
  expect("positions", positions, {1, side * side, o.width});
  expect("predictor_positions", predictor_positions, {1, side * side, o.predictor_width});
}

data::RecipeOptions recipe_options_of(const Pretrained& p) {
  return {.image = p.model.image,
          .crop_pct = 1,
          .statistics = {.mean = p.mean, .deviation = p.deviation},
          .apply_exif = p.apply_exif};
}

}  // namespace

Description describe(const Pretrained& p) {
  Description description = {{"mean", joined(p.mean)},
                             {"deviation", joined(p.deviation)},
                             {"exif", p.apply_exif ? "apply" : "ignore"},
                             {"drop_path", shortest(p.model.drop_path)}};
  for (auto [key, member] : whole_numbers) description[key] = std::to_string(p.model.*member);
  return description;
}

data::Pipeline training_pipeline(const Pretrained& p) { return data::jepa_train(recipe_options_of(p)); }
data::Pipeline evaluation_pipeline(const Pretrained& p) { return data::photo_eval(recipe_options_of(p)); }

void load_weights(nn::Jepa& model, const std::string& from) {
  model.load_state_dict(train::load_checkpoint(from, false).parameters);
}

LoadedRun load_run(const std::string& run, Device device) {
  std::string path = run.empty() ? newest_run("predictor-width") : run;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return train::under_option("--run", [&] {
    LoadedRun loaded;
    train::Checkpoint checkpoint = train::load_checkpoint(path, false);
    check(!checkpoint.model.empty(), path,
          ": holds weights only, not a run: give a run folder or a checkpoint");
    train::about(checkpoint.path, [&] {
      loaded.pretrained = pretrained_from(checkpoint.model);
      check_described(loaded.pretrained.model, checkpoint.parameters);
      loaded.model = std::make_unique<nn::Jepa>(loaded.pretrained.model, device);
      loaded.model->load_state_dict(checkpoint.parameters);
    });
    loaded.folder = io::exists(path + "/model.safetensors") ? run_folder_of(path) : path;
    return loaded;
  });
}

}  // namespace reprise::apps::jepa
