#include "reprise/apps/vit/model.h"

#include <fmt/core.h>

#include <map>

#include "reprise/apps/common/models/model_config.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/nn/dialects/dialect.h"
#include "reprise/nn/dialects/pretrained.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps::vit {
namespace {

using Shapes = std::map<std::string, Shape>;

void expect(const char* what, const Shape& got, const Shape& want) {
  check(got == want, "its description of the model has ", what, " ", want, ", its tensors ", got);
}

// Sizes that the description gives and the tensors do not have would be allocated before `load_state_dict` compares
// them.
void check_described(const nn::VitOptions& described, const Shapes& shapes) {
  int64_t layers = 0;
  for (const auto& [name, shape] : shapes)
    layers += name.starts_with("blocks.") && name.ends_with(".norm1.weight");
  expect("layers", {layers}, {described.layers});
  auto head = shapes.find("head.weight");
  expect("classes and width", head == shapes.end() ? Shape() : head->second,
         {described.classes, described.width});
  check(described.patch > 0, "its description of the model has patches of ", described.patch, " pixels");
}

void check_described(const nn::ResNetOptions& described, const Shapes& shapes) {
  const nn::ResNetOptions own = nn::resnet_options_of([&](const std::string& name) -> std::optional<Shape> {
    auto found = shapes.find(name);
    if (found == shapes.end()) return {};
    return found->second;
  });
  expect("classes, channels and width", {own.classes, own.channels, own.width},
         {described.classes, described.channels, described.width});
  check(own.blocks == described.blocks && own.block == described.block && own.stem == described.stem,
        "its description of the model has other blocks or another stem than its tensors");
}

void check_described(const Classifier& described, const nn::NamedTensors& tensors) {
  Shapes shapes;
  for (const auto& [name, tensor] : tensors) shapes[name] = tensor.shape();
  std::visit([&](const auto& o) { check_described(o, shapes); }, described.model);
  check(described.image > 0 && described.image <= (1 << 14), "its description of the model has an image of ",
        described.image, " pixels");
}

// Says so if `checkpoint`, or what lies beside it, names other statistics of pixels than those of `c`.
void compare_statistics(const train::Checkpoint& checkpoint, const Classifier& c, const std::string& from) {
  std::string mean, deviation;
  if (checkpoint.model.empty()) {
    const ModelConfig config = read_model_config(io::parent_folder(checkpoint.path));
    mean = joined(config.mean), deviation = joined(config.deviation);
  } else {
    mean = entry_in(checkpoint.model, "mean"), deviation = entry_in(checkpoint.model, "deviation");
  }
  if (mean.empty() || (mean == joined(c.mean) && deviation == joined(c.deviation))) return;
  train::report("{}: the weights are for pixels of mean {} and deviation {}, this run's have {} and {}\n",
                train::for_output(from), train::for_output(mean), train::for_output(deviation),
                joined(c.mean), joined(c.deviation));
}

const nn::NamedTensors& weights_of(const train::Checkpoint& checkpoint) {
  return checkpoint.ema.empty() ? checkpoint.parameters : checkpoint.ema;
}

}  // namespace

void load_weights(const ImageModel& model, const Classifier& classifier, const std::string& from) {
  train::Checkpoint checkpoint = train::load_checkpoint(from, false);
  nn::NamedTensors tensors = weights_of(checkpoint);
  const std::string probed = probed_encoder(checkpoint.model);
  if (nn::NamedTensors encoder = nn::part_of(tensors, probed); !encoder.empty()) {
    train::report("{}: the {} is taken\n", train::for_output(from),
                  probed == "encoder" ? "encoder" : "target encoder");
    tensors = std::move(encoder);
  }
  nn::ModelWeights weights = train::about(from, [&] { return nn::read_dialect(std::move(tensors)); });
  const auto wanted = model.vit() ? nn::Architecture::vit : nn::Architecture::resnet;
  check(weights.kind.architecture == wanted, from, ": the weights are of no ",
        model.vit() ? "vision transformer" : "ResNet");
  for (const std::string& change : model.load_pretrained(std::move(weights.tensors)))
    train::report("{}: {}\n", train::for_output(from), change);
  compare_statistics(checkpoint, classifier, from);
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
      check_described(loaded.classifier, weights_of(checkpoint));
      loaded.model = std::make_unique<ImageModel>(loaded.classifier.model, device);
      nn::Module& module = loaded.model->module();
      module.load_state_dict(nn::with_dtypes_of(module, weights_of(checkpoint)));
    });
    loaded.folder = io::exists(path + "/model.safetensors") ? run_folder_of(path) : path;
    return std::move(loaded);
  });
}

}  // namespace reprise::apps::vit
