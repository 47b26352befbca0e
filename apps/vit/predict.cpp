// reprise-vit predict.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "reprise/apps/common/program.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/apps/vit/evaluate.h"
#include "reprise/apps/vit/model.h"
#include "reprise/apps/vit/options.h"
#include "reprise/apps/vit/pipelines.h"
#include "reprise/data/image_rows.h"
#include "reprise/io/images/decode.h"
#include "reprise/io/json.h"
#include "reprise/train/output.h"

namespace reprise::apps::vit {
namespace {

constexpr size_t most_answers = 5;

// The file as the model takes it, (1, C, H, W).
Tensor read(const std::string& path, const Classifier& c, const data::Pipeline& pipeline, const Tensor& table,
            bool invert) {
  io::Image image;
  io::read_image(path, {.channels = c.channels(), .apply_exif = c.apply_exif}, image);
  if (invert)
    std::transform(image.pixels.begin(), image.pixels.end(), image.pixels.begin(),
                   [](uint8_t v) { return 255 - v; });
  data::TransformScratch scratch;
  pipeline.transform(image, 0, 0, scratch);
  Tensor row = Tensor::from(image.pixels, {1, image.height, image.width, image.channels});
  return data::image_tensor(row, table);
}

std::vector<size_t> likeliest(const std::vector<float>& probability) {
  std::vector<size_t> classes(probability.size());
  std::iota(classes.begin(), classes.end(), size_t(0));
  std::stable_sort(classes.begin(), classes.end(),
                   [&](size_t a, size_t b) { return probability[a] > probability[b]; });
  classes.resize(std::min(classes.size(), most_answers));
  return classes;
}

void print_answer(const std::string& file, const std::vector<std::string>& names,
                  const std::vector<float>& probability, bool json) {
  std::string line =
      json ? "{\"file\": " + io::json_quote(file) + ", \"classes\": [" : train::for_output(file) + ":";
  const char* separator = "";
  for (size_t i : likeliest(probability)) {
    line += json
                ? fmt::format("{}{{\"name\": {}, \"probability\": {:.6f}}}", separator,
                              io::json_quote(names[i]), probability[i])
                : fmt::format("{} {} {:.1f} %", separator, train::for_output(names[i]), 100 * probability[i]);
    separator = json ? ", " : ",";
  }
  train::print("{}{}\n", line, json ? "]}" : "");
}

}  // namespace

int run_predict(const PredictCommand& c) {
  const Device device = Device::parse(c.device);
  use_attention(c.attention, device);
  LoadedRun run = load_run(c.run, device);
  const train::PrecisionScope precision = precision_scope(c, device, run.folder);
  take_precision(run.model->module(), c, run.folder);
  const data::Pipeline pipeline = evaluation_pipeline(run.classifier);
  const Tensor table = data::table_on(pipeline, device);
  int code = 0;
  for (const std::string& file : c.files) {
    try {
      Tensor image = read(file, run.classifier, pipeline, table, c.invert);
      print_answer(file, run.classifier.class_names, probabilities(*run.model, image).front(), c.json);
    } catch (const OutOfMemory& error) {
      train::warn("reprise-vit: {}: {}{}\n", train::for_output(file), error.what(), unknown_fit);
      code = 2;
    } catch (const Error& error) {  // the others are answered all the same
      train::warn("reprise-vit: {}\n", train::for_output(error.what()));
      code = 2;
    }
  }
  return code;
}

}  // namespace reprise::apps::vit
