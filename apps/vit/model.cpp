#include "reprise/apps/vit/model.h"

#include <fmt/core.h>

#include "reprise/apps/common/training_run.h"
#include "reprise/io/folder.h"
#include "reprise/nn/dialects/dialect.h"
#include "reprise/nn/dialects/pretrained.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps::vit {
namespace {

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

void load_weights(nn::Vit& model, const std::string& from) {
  train::Checkpoint checkpoint = train::load_checkpoint(from, false);
  nn::ModelWeights weights = train::about(from, [&] { return nn::read_dialect(weights_of(checkpoint)); });
  check(weights.kind.architecture == nn::Architecture::vit, from,
        ": the weights are of no vision transformer");
  for (const std::string& change : nn::load_pretrained(model, std::move(weights.tensors)))
    train::report("{}: {}\n", train::for_output(from), change);
}

LoadedRun load_run(const std::string& run, Device device) {
  LoadedRun loaded;
  std::string path = run.empty() ? newest_run("recipe") : run;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return train::under_option("--run", [&] {
    train::Checkpoint checkpoint = train::load_checkpoint(path, false);
    check(!checkpoint.model.empty(), path,
          ": holds weights only, not a run: give a run folder or a checkpoint");
    train::about(checkpoint.path, [&] {
      loaded.classifier = classifier_from(checkpoint.model);
      check_described(loaded.classifier.model, weights_of(checkpoint));
      loaded.model = std::make_unique<nn::Vit>(loaded.classifier.model, device);
      loaded.model->load_state_dict(nn::with_dtypes_of(*loaded.model, weights_of(checkpoint)));
    });
    loaded.folder = io::exists(path + "/model.safetensors") ? run_folder_of(path) : path;
    return std::move(loaded);
  });
}

}  // namespace reprise::apps::vit
