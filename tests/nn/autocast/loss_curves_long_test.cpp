// How far 16 bits move the loss of a training run, beside PyTorch (tests/golden/autocast_curves.txt, made by
// tools/parity_curves.py --golden): a GPT of 4 layers and width 128, 200 steps, five seeds. Both frameworks start at the
// same weights, to the bit, and train on the same rows (generated_text.h).
// labels: long
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/nn/autocast/generated_text.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/golden.h"

namespace reprise {
namespace {

using testing::GeneratedText;

constexpr int kSteps = 200, kWarmup = 20;
constexpr size_t kSeeds = 5;
constexpr int64_t kRows = 4, kTokens = 64;

using Curve = std::vector<double>;
using Curves = std::map<uint64_t, Curve>;  // of each seed

Curves curves_of_pytorch(const std::string& precision) {
  std::ifstream file(testing::golden_path("autocast_curves.txt"));
  Curves curves;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    uint64_t seed = 0;
    fields >> name >> seed;
    if (name != precision) continue;
    for (double loss; fields >> loss;) curves[seed].push_back(loss);
    check(curves[seed].size() == size_t(kSteps), "autocast_curves.txt: ", name, ' ', seed, " has ",
          curves[seed].size(), " losses");
  }
  check(curves.size() >= kSeeds, "autocast_curves.txt: ", curves.size(), " seeds of ", precision);
  return curves;
}

std::unique_ptr<nn::Gpt> gpt(uint64_t seed) {
  auto model = std::make_unique<nn::Gpt>(nn::GptOptions{
      .vocab_size = GeneratedText::vocab, .context = kTokens, .layers = 4, .heads = 4, .width = 128});
  nn::NamedTensors state = model->state_dict();  // gains of norms are 1, biases 0
  for (auto& [name, x] : state)
    if (x.rank() > 1)
      x = GeneratedText::weight(seed, name, x.shape(),
                                name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(8.0) : 0.02);
  model->load_state_dict(state);
  return model;
}

/// The loss of each step; `is_nudged`: of a run that starts one last bit of one weight apart.
Curve train(const std::string& precision, uint64_t seed, bool is_nudged = false) {
  static const std::vector<int64_t> text = GeneratedText::tokens();
  auto model = gpt(seed);
  if (is_nudged) {
    std::vector<float> table = model->wte.weight.to_vector<float>();
    table[0] = std::nextafter(table[0], 1.0f);
    model->wte.weight.set_data(Tensor::from(table, model->wte.weight.shape()));
  }
  optim::AdamW optimizer(optim::decay_matrices(*model, 1e-3, 0.1), {.beta2 = 0.95});
  std::optional<optim::GradScaler> scaler;
  if (precision == "f16") scaler.emplace(Device::cpu());
  Curve losses;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.set_lr(1e-3 * std::min(1.0, (step + 1) / double(kWarmup)));
    const Tensor rows =
        Tensor::from(GeneratedText::rows(text, seed, step, kRows, kTokens + 1), {kRows, kTokens + 1});
    Tensor loss;
    {
      std::optional<amp::Autocast> scope;
      if (precision != "f32") scope.emplace(Device::cpu(), scaler ? DType::f16 : DType::bf16);
      loss = cross_entropy((*model)(slice(rows, 1, 0, kTokens)), slice(rows, 1, 1, kTokens + 1));
    }
    optimizer.zero_grad();
    losses.push_back(loss.item());
    if (scaler) {
      scaler->scale(loss).backward();
      scaler->step(optimizer, {.clip = 1.0});
      scaler->update();
    } else {
      loss.backward();
      optimizer.step(optim::clip_scale(optim::grad_norm(model->parameters()), 1.0));
    }
  }
  return losses;
}

const Curve& exact_curve(uint64_t seed) {
  static Curves curves;
  Curve& curve = curves[seed];
  if (curve.empty()) curve = train("f32", seed);
  return curve;
}

double mean_of(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / double(numbers.size());
}

/// Of the mean of these.
double standard_error(const std::vector<double>& numbers) {
  const double n = double(numbers.size()), mean = mean_of(numbers);
  double squares = 0;
  for (double one : numbers) squares += (one - mean) * (one - mean);
  return std::sqrt(squares / (n - 1) / n);
}

/// Of d, the loss of a step less that of the f32 run of the same framework and seed.
struct Distance {
  double rms = 0, largest = 0;
  std::vector<double> means{};  // of each seed
};

Distance distance(const Curves& other, const Curves& exact) {
  Distance found;
  for (const auto& [seed, curve] : other) {
    Curve d = curve;
    for (size_t step = 0; step < d.size(); ++step) {
      d[step] -= exact.at(seed)[step];
      found.rms += d[step] * d[step] / double(d.size() * other.size());
      found.largest = std::max(found.largest, std::abs(d[step]));
    }
    found.means.push_back(mean_of(d));
  }
  found.rms = std::sqrt(found.rms);
  return found;
}

void print(const std::string& name, const Distance& of) {
  std::cout << name << ": rms " << of.rms << ", largest " << of.largest << ", mean " << mean_of(of.means)
            << " +- " << standard_error(of.means) << std::endl;
}

void expect_within_pytorchs(const std::string& precision) {
  const Curves pytorchs_curves = curves_of_pytorch(precision), pytorchs_exact = curves_of_pytorch("f32");
  Curves exact, curves;
  for (const auto& [seed, curve] : pytorchs_curves) {
    exact[seed] = exact_curve(seed);
    // The same weights and rows: what is left is the order of sums.
    EXPECT_NEAR(exact[seed][0], pytorchs_exact.at(seed)[0], 4e-6);
    curves[seed] = train(precision, seed);
    EXPECT_LT(curves[seed].back(), curves[seed].front() / 2) << "seed " << seed << " learns nothing";
  }
  const Distance own = distance(curves, exact), pytorchs = distance(pytorchs_curves, pytorchs_exact);
  const Distance frameworks = distance(exact, pytorchs_exact);
  print("f32 of both frameworks", frameworks);
  print("Reprise " + precision, own);
  print("PyTorch " + precision, pytorchs);
  EXPECT_LT(frameworks.rms, 0.1 * pytorchs.rms) << "f32's own rounding decides";
  EXPECT_GT(own.rms, 0) << "nothing was rounded";
  EXPECT_LE(own.rms, 1.2 * pytorchs.rms);
  EXPECT_LE(own.largest, 1.5 * pytorchs.largest);
  // Both means are known to their standard errors alone: ours may be above by two of those of their difference.
  std::vector<double> differences = own.means;
  for (size_t i = 0; i < differences.size(); ++i) differences[i] -= pytorchs.means[i];
  EXPECT_LE(std::abs(mean_of(own.means)),
            std::abs(mean_of(pytorchs.means)) + 2 * standard_error(differences));
}

TEST(GptAutocastParity, LossCurves) { expect_within_pytorchs("bf16"); }
TEST(GptAutocastParity, F16WithScaler) { expect_within_pytorchs("f16"); }

// What the bounds above stand on: training makes little of a last bit, so that a distance is rounding's and no chance's.
TEST(GptAutocastParity, ALastBitMovesALossByFarLessThan16BitsDo) {
  Curve d = train("f32", 1, /*is_nudged=*/true);
  double largest = 0;
  for (size_t step = 0; step < d.size(); ++step)
    largest = std::max(largest, std::abs(d[step] - exact_curve(1)[step]));
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 0.1 * distance(curves_of_pytorch("f16"), curves_of_pytorch("f32")).rms);
}

}  // namespace
}  // namespace reprise
