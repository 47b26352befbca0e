// Convolutions of ResNet-18 beside our own matrix products of the same sizes: what finding the windows costs.
// With pixels = images x windows, channels C to O and windows of P x P:
//
//   forward (O x C P P) (C P P x pixels)     dW (O x pixels) (pixels x C P P)     dX (C x O P P) (O P P x pixels)
//
//   conv_bench [cifar | imagenet] [threads] [rounds]
//
// Rounds are interleaved; a line gives medians in GFLOP/s, the last one the ratio of times over the whole network.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "reprise/autograd/ops.h"
#include "reprise/core/parallel.h"
#include "reprise/kernels/conv/conv2d.h"
#include "reprise/kernels/gemm/gemm.h"

namespace {

using namespace reprise;

/// A convolution that the network runs `times` times.
struct Layer {
  int64_t times, in, out, image, kernel, stride;
};

struct Network {
  int64_t images;
  std::vector<Layer> layers;
};

Network cifar() {
  return {128,
          {{1, 3, 64, 32, 3, 1},
           {4, 64, 64, 32, 3, 1},
           {1, 64, 128, 32, 3, 2},
           {1, 64, 128, 32, 1, 2},
           {3, 128, 128, 16, 3, 1},
           {1, 128, 256, 16, 3, 2},
           {1, 128, 256, 16, 1, 2},
           {3, 256, 256, 8, 3, 1},
           {1, 256, 512, 8, 3, 2},
           {1, 256, 512, 8, 1, 2},
           {3, 512, 512, 4, 3, 1}}};
}

/// The same for 224 pixels, whose stem looks through windows of 7 x 7.
Network imagenet() {
  Network network = cifar();
  network.images = 8;
  for (Layer& layer : network.layers) layer.image = layer.image * 56 / 32;
  network.layers[0] = {1, 3, 64, 224, 7, 2};
  return network;
}

using Action = std::function<void()>;

double seconds_of(const Action& action, int64_t repeats) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < repeats; ++i) action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / double(repeats);
}

struct Seconds {
  double convolution, product;
};

/// Median seconds of the two, taking turns.
Seconds measure(const Action& convolution, const Action& product, double flops, int rounds) {
  const int64_t repeats = std::max<int64_t>(1, int64_t(2e9 / flops));
  const Action* actions[] = {&convolution, &product};
  std::vector<double> seconds[2];
  for (int round = -1; round < rounds; ++round)
    for (int i : {0, 1}) {
      const double taken = seconds_of(*actions[i], repeats);
      if (round >= 0) seconds[i].push_back(taken);  // the first one warms up
    }
  for (auto& list : seconds) std::nth_element(list.begin(), list.begin() + rounds / 2, list.end());
  return {seconds[0][size_t(rounds / 2)], seconds[1][size_t(rounds / 2)]};
}

/// C = A B by our product, of matrices that lie as they are computed.
Action product(int64_t m, int64_t n, int64_t k) {
  return [a = randn({m, k}), b = randn({k, n}), c = Tensor::empty({m, n})] {
    kernels::gemm(Stream(Device::cpu()), {.a = a, .b = b, .c = c});
  };
}

/// Prints the three passes of a layer and returns the seconds that the network spends in them.
Seconds measure_layer(const Layer& layer, int64_t images, int rounds) {
  const auto& [times, in, out, image, kernel, stride] = layer;
  const Conv2dOptions options{.stride = stride, .padding = kernel / 2};
  const Stream stream(Device::cpu());
  const Shape weight_shape{out, in, kernel, kernel};
  const Tensor x = randn({images, in, image, image}), weight = randn(weight_shape);
  const Tensor y = Tensor::empty(kernels::conv2d_shape(x.shape(), weight_shape, options));
  const Tensor dy = randn(y.shape()), dx = Tensor::empty(x.shape()), dweight = Tensor::empty(weight_shape);
  const int64_t pixels = images * y.size(2) * y.size(3), taps = kernel * kernel;
  struct Pass {
    const char* name;
    Action convolution, product;
  };
  const Pass passes[] = {
      {"forward", [&] { kernels::conv2d(stream, {.x = x, .weight = weight, .options = options, .y = y}); },
       product(out, pixels, in * taps)},
      {"dW",
       [&] { kernels::conv2d_dweight(stream, {.dy = dy, .x = x, .options = options, .dweight = dweight}); },
       product(out, in * taps, pixels)},
      {"dX", [&] { kernels::conv2d_dx(stream, {.dy = dy, .weight = weight, .options = options, .dx = dx}); },
       product(in, pixels, out * taps)}};
  Seconds total{};
  const double flops = 2.0 * double(pixels) * double(in * taps) * double(out);
  for (const auto& [name, convolution, same] : passes) {
    if (in == 3 && std::strcmp(name, "dX") == 0) continue;  // images need no gradient
    const Seconds taken = measure(convolution, same, flops, rounds);
    std::printf("%4ld %5ld %5ld %6ld %3ld/%ld  %-8s %10.1f %10.1f %8.2f\n", long(times), long(in), long(out),
                long(image), long(kernel), long(stride), name, flops / taken.convolution / 1e9,
                flops / taken.product / 1e9, taken.product / taken.convolution);
    std::fflush(stdout);
    total.convolution += double(times) * taken.convolution;
    total.product += double(times) * taken.product;
  }
  return total;
}

}  // namespace

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "cifar";
  if (std::strcmp(name, "cifar") != 0 && std::strcmp(name, "imagenet") != 0) {
    std::puts("conv_bench [cifar | imagenet] [threads] [rounds]");
    return std::strcmp(name, "--help") == 0 ? 0 : 2;
  }
  if (argc > 2) set_num_threads(std::atoi(argv[2]));
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  const Network network = std::strcmp(name, "cifar") == 0 ? cifar() : imagenet();
  std::printf(
      "runs    in   out  image size  pass     convolution    product    ratio   GFLOP/s, %d threads\n",
      num_threads());
  Seconds total{};
  for (const Layer& layer : network.layers) {
    const Seconds taken = measure_layer(layer, network.images, rounds);
    total.convolution += taken.convolution;
    total.product += taken.product;
  }
  std::printf("the whole network: %.0f ms in convolutions, %.0f ms in products of their sizes, ratio %.2f\n",
              total.convolution * 1e3, total.product * 1e3, total.product / total.convolution);
}
