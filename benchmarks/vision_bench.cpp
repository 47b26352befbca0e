// One training step of a vision model, timed: the worker that benchmarks/bench_vision.py drives against PyTorch.
//
//   vision_bench --model vit_192 [--device cuda] [--autocast] [--steps N]
//
// --autocast: products and convolutions in bf16, weights and their updates in f32. Warms up, then for each line "run" on
// standard input runs N steps on random images and prints one JSON object. Ends with the input.
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/engine.h"
#include "reprise/benchmarks/worker.h"
#include "reprise/nn/models/resnet.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/nn/optim/sgd.h"

namespace rp = reprise;

namespace {

struct Trainee {
  int64_t batch, image, classes, steps;
  std::shared_ptr<rp::nn::Module> module;
  std::function<rp::Tensor(const rp::Tensor& images)> logits;
  std::unique_ptr<rp::optim::Optimizer> optimizer;
};

Trainee vit(rp::Device device, int64_t batch, int64_t steps, const rp::nn::VitOptions& options) {
  auto model = std::make_shared<rp::nn::Vit>(options, device);
  auto optimizer = std::make_unique<rp::optim::AdamW>(rp::optim::decay_matrices(*model, 1e-3, 0.05));
  return {batch,
          options.image,
          options.classes,
          steps,
          model,
          [model](const rp::Tensor& x) { return (*model)(x); },
          std::move(optimizer)};
}

Trainee resnet(rp::Device device, int64_t batch, int64_t image, int64_t steps,
               rp::nn::ResNetOptions options) {
  auto model = std::make_shared<rp::nn::ResNet>(options, device);
  auto optimizer = std::make_unique<rp::optim::Sgd>(
      model->parameters(), rp::optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
  return {batch,
          image,
          options.classes,
          steps,
          model,
          [model](const rp::Tensor& x) { return (*model)(x); },
          std::move(optimizer)};
}

Trainee make(const std::string& name, rp::Device device) {
  using rp::nn::ResNetStem;
  if (name == "vit_192")
    return vit(device, 64, 4,
               {.image = 32, .patch = 4, .classes = 10, .width = 192, .layers = 6, .heads = 3});
  if (name == "vit_384")
    return vit(device, 64, 1,
               {.image = 32, .patch = 4, .classes = 10, .width = 384, .layers = 6, .heads = 6});
  if (name == "vit_s16") return vit(device, 8, 1, {.width = 384, .heads = 6});
  if (name == "resnet18_cifar")
    return resnet(device, 128, 32, 1, {.classes = 10, .blocks = {2, 2, 2, 2}, .stem = ResNetStem::cifar});
  if (name == "vit_b16_gpu") return vit(device, 256, 4, {});
  if (name == "resnet50") return resnet(device, 8, 224, 1, rp::nn::resnet_preset("50"));
  if (name == "resnet50_gpu") return resnet(device, 128, 224, 4, rp::nn::resnet_preset("50"));
  std::fprintf(
      stderr,
      "vision_bench: unknown model '%s'; use vit_192, vit_384, vit_s16, vit_b16_gpu, resnet18_cifar, "
      "resnet50 or resnet50_gpu\n",
      name.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  std::string name = "vit_192";
  int64_t steps = 0;
  rp::Device device;
  bool autocast = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--model" && i + 1 < argc) {
      name = argv[++i];
    } else if (option == "--device" && i + 1 < argc) {
      device = rp::Device::parse(argv[++i]);
    } else if (option == "--autocast") {
      autocast = true;
    } else if (option == "--steps" && i + 1 < argc) {
      steps = std::atoll(argv[++i]);
    } else {
      std::puts(
          "vision_bench --model NAME [--device cpu|cuda] [--autocast] [--steps N]\n"
          "Reads lines \"run\" and prints one JSON object for each.");
      return option == "--help" ? 0 : 2;
    }
  }
  rp::manual_seed(1);
  Trainee trainee = make(name, device);
  if (steps > 0) trainee.steps = steps;
  trainee.module->train();
  const rp::Tensor images =
      rp::randn({trainee.batch, 3, trainee.image, trainee.image}, rp::DType::f32, device);
  const rp::Tensor targets =
      rp::cast(rp::rand({trainee.batch}, rp::DType::f32, device) * double(trainee.classes), rp::DType::i64);
  auto step = [&] {
    rp::Tensor loss;
    {
      rp::amp::Autocast scope(device, rp::DType::bf16, {.enabled = autocast});
      loss = rp::cross_entropy(trainee.logits(images), targets);
    }
    loss.backward();
    trainee.optimizer->step();
    trainee.optimizer->zero_grad();
    return loss.item();
  };
  for (int i = 0; i < 2; ++i) step();
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    double loss = 0;
    for (int64_t i = 0; i < trainee.steps; ++i) loss = step();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    const double seconds = taken.count() / double(trainee.steps);
    std::printf(
        "{\"seconds_per_step\": %.6f, \"images_per_second\": %.1f, \"peak_rss_bytes\": %zu, "
        "\"peak_device_bytes\": %zu, \"loss\": %.6f}\n",
        seconds, double(trainee.batch) / seconds, rp::bench::peak_rss_bytes(),
        rp::allocator(device).stats().peak_reserved, loss);
    std::fflush(stdout);
  }
}
