#include "reprise/apps/vit/evaluate.h"

#include <algorithm>
#include <cmath>

#include "reprise/apps/common/training_run.h"
#include "reprise/autograd/ops.h"
#include "reprise/data/loader.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/ranks/dealt_batches.h"

namespace reprise::apps::vit {
namespace {

constexpr int64_t five = 5;

// What the model says of one image, nats of the right class included.
struct Verdict {
  Answer answer;
  bool is_of_five = false;
  double loss = 0;
};

Verdict verdict_of(int64_t index, int64_t label, const std::vector<float>& probability) {
  const float own = probability[size_t(label)];
  auto likeliest = std::max_element(probability.begin(), probability.end());
  int64_t answer = likeliest - probability.begin();
  // Of classes that are as likely the first ones count as better, as the answer is the first.
  int64_t better = std::count_if(probability.begin(), probability.end(), [&](const float& p) {
    return p > own || (p == own && &p - probability.data() < label);
  });
  return {{.index = index, .label = label, .answer = answer, .probability = *likeliest},
          better < five,
          -std::log(std::max(double(own), 1e-45))};
}

std::vector<Verdict> verdicts_of(const ImageModel& model, const data::EvaluationBatches::Batch& batch) {
  std::vector<Verdict> verdicts;
  if (batch.indices.empty()) return verdicts;
  const std::vector<std::vector<float>> rows = probabilities(model, batch.images);
  for (size_t row = 0; row < rows.size(); ++row)
    verdicts.push_back(verdict_of(batch.indices[row], batch.labels[row], rows[row]));
  return verdicts;
}

void count(Evaluation& e, const Verdict& verdict) {
  const Answer& answer = verdict.answer;
  ++e.images;
  e.right += answer.answer == answer.label;
  e.right_of_five += verdict.is_of_five;
  e.loss += verdict.loss;
  ++e.confusion.counts[size_t(answer.label) * e.confusion.names.size() + size_t(answer.answer)];
  e.answers.push_back(answer);
}

void check_classes(const ImageModel& model, const data::Dataset& images) {
  check(images.classes() == model.classes(), "evaluate: the images have ", images.classes(),
        " classes, the model ", model.classes());
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
                    int64_t batch) {
  check_classes(model, images);
  Evaluation e{.confusion = {.names = images.class_names()}};
  e.confusion.counts.resize(size_t(images.classes() * images.classes()));
  data::EvaluationBatches all(images, pipeline, batch, model.device());
  for (int64_t i = 0; i < all.batches(); ++i) {
    train::stop_if_interrupted();
    for (const Verdict& verdict : verdicts_of(model, all.at(i))) count(e, verdict);
  }
  if (e.images > 0) e.loss /= double(e.images);
  e.bad_images = all.bad_images();
  return e;
}

train::Validation validate(distributed::DataParallel& parallel, const ImageModel& model,
                           const data::Dataset& images, const data::Pipeline& pipeline, int64_t batch,
                           int64_t batches) {
  check_classes(model, images);
  data::EvaluationBatches all(images, pipeline, batch, model.device());
  const int64_t used = batches > 0 ? std::min(batches, all.batches()) : all.batches();
  const std::vector<double> sums =
      train::sums_of_batches(parallel, used, 3, [&](int64_t i) -> std::vector<double> {
        double loss = 0, right = 0;
        const std::vector<Verdict> verdicts = verdicts_of(model, all.at(i * all.batches() / used));
        for (const Verdict& verdict : verdicts) {
          loss += verdict.loss;
          right += verdict.answer.answer == verdict.answer.label;
        }
        return {loss, right, double(verdicts.size())};
      });
  const double images_read = std::max(sums[2], 1.0);
  return {sums[0] / images_read, sums[1] / images_read};
}

}  // namespace reprise::apps::vit
