#include "reprise/data/mixing.h"

#include <algorithm>
#include <cmath>

#include "reprise/data/transform.h"

namespace reprise::data {
namespace {

/// Draws that a pair has: rejections of gammas are rare, but have no bound.
constexpr uint64_t draws_per_pair = uint64_t(1) << 32;

}  // namespace

Mix cutmix_of(double lambda, int64_t height, int64_t width, int64_t y, int64_t x) {
  const double side = std::sqrt(1 - lambda);
  const auto cut_height = int64_t(double(height) * side), cut_width = int64_t(double(width) * side);
  io::Box box{std::max<int64_t>(y - cut_height / 2, 0), std::max<int64_t>(x - cut_width / 2, 0)};
  box.height = std::min(y + (cut_height + 1) / 2, height) - box.top;
  box.width = std::min(x + (cut_width + 1) / 2, width) - box.left;
  return {.lambda = 1 - double(box.height * box.width) / double(height * width), .box = box, .cutmix = true};
}

Mix mix_of(const MixingOptions& options, int64_t height, int64_t width, uint64_t seed, int64_t step,
           int64_t pair) {
  const uint64_t place = options.mode == MixingMode::batch ? 0 : uint64_t(pair);
  Draws draws(seed_for(Use::mixing, seed), uint64_t(step), place * draws_per_pair, draws_per_pair);
  const bool mixed = draws.chance(options.probability), switched = draws.chance(options.switch_probability);
  const bool cutmix = options.cutmix > 0 && (options.mixup <= 0 || switched);
  const double shape = cutmix ? options.cutmix : options.mixup;
  if (!mixed || shape <= 0) return {};
  const double lambda = draws.beta(shape, shape);
  if (!cutmix) return {.lambda = lambda};
  const int64_t y = draws.below(height), x = draws.below(width);
  return cutmix_of(lambda, height, width, y, x);
}

void mixed_target(int64_t label, int64_t partner, double lambda, double smoothing, std::span<float> target) {
  const double off = smoothing / double(target.size()), on = 1 - smoothing + off;
  auto value = [&](int64_t of, int64_t i) { return float(of == i ? on : off); };
  for (int64_t i = 0; i < int64_t(target.size()); ++i)
    target[size_t(i)] = float(lambda) * value(label, i) + float(1 - lambda) * value(partner, i);
}

std::string text(const MixingOptions& options) {
  return detail::join("mixup ", shortest(options.mixup), " cutmix ", shortest(options.cutmix),
                      " probability ", shortest(options.probability), " switch ",
                      shortest(options.switch_probability),
                      options.mode == MixingMode::batch ? " batch" : " pair");
}

}  // namespace reprise::data
