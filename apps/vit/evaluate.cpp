#include "reprise/apps/vit/evaluate.h"

#include <algorithm>
#include <cmath>

#include "reprise/apps/common/training_run.h"
#include "reprise/autograd/ops.h"
#include "reprise/data/loader.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/train/interrupt.h"

namespace reprise::apps::vit {
namespace {

constexpr int64_t five = 5;

void count(Evaluation& e, int64_t index, int64_t label, const std::vector<float>& probability) {
  const float own = probability[size_t(label)];
  auto likeliest = std::max_element(probability.begin(), probability.end());
  int64_t answer = likeliest - probability.begin();
  // Of classes that are as likely the first ones count as better, as the answer is the first.
  int64_t better = std::count_if(probability.begin(), probability.end(), [&](const float& p) {
    return p > own || (p == own && &p - probability.data() < label);
  });
  ++e.images;
  e.right += answer == label;
  e.right_of_five += better < five;
  e.loss -= std::log(std::max(double(own), 1e-45));
  ++e.confusion.counts[size_t(label) * e.confusion.names.size() + size_t(answer)];
  e.answers.push_back({.index = index, .label = label, .answer = answer, .probability = *likeliest});
}

}  // namespace

std::vector<std::vector<float>> probabilities(const ImageModel& model, const Tensor& images) {
  nn::EvalScope scope(model.module());
  Tensor all = softmax(model(images));  // (B, classes)
  std::vector<float> numbers = all.to_vector<float>();
  std::vector<std::vector<float>> rows;
  const auto classes = std::ptrdiff_t(all.size(1));
  for (auto row = numbers.begin(); row != numbers.end(); row += classes)
    rows.emplace_back(row, row + classes);
  return rows;
}

Evaluation evaluate(const ImageModel& model, const data::Dataset& images, const data::Pipeline& pipeline,
                    int64_t batch, int64_t batches) {
  check(images.classes() == model.classes(), "evaluate: the images have ", images.classes(),
        " classes, the model ", model.classes());
  Evaluation e{.confusion = {.names = images.class_names()}};
  e.confusion.counts.resize(size_t(images.classes() * images.classes()));
  data::EvaluationBatches all(images, pipeline, batch, model.device());
  const int64_t used = batches > 0 ? std::min(batches, all.batches()) : all.batches();
  for (int64_t i = 0; i < used; ++i) {
    train::stop_if_interrupted();
    data::EvaluationBatches::Batch part = all.at(i * all.batches() / used);
    if (part.indices.empty()) continue;
    std::vector<std::vector<float>> rows = probabilities(model, part.images);
    for (size_t row = 0; row < rows.size(); ++row) count(e, part.indices[row], part.labels[row], rows[row]);
  }
  if (e.images > 0) e.loss /= double(e.images);
  e.bad_images = all.bad_images();
  return e;
}

}  // namespace reprise::apps::vit
