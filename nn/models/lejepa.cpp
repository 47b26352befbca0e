// LeJepa and its regulariser.
#include "reprise/nn/models/lejepa.h"

#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/core/random.h"

namespace reprise::nn {
namespace {

constexpr int64_t knots = 17;
constexpr double last_knot = 3;

VitOptions encoder_options(const LeJepaOptions& o) {
  return patch_encoder({.image = o.image,
                        .patch = o.patch,
                        .channels = o.channels,
                        .width = o.width,
                        .layers = o.layers,
                        .heads = o.heads,
                        .drop_path = o.drop_path,
                        .recompute = o.recompute});
}

const LeJepaOptions& checked(const LeJepaOptions& o) {
  check(o.hidden >= 1 && o.features >= 1, "LeJepa: the projector needs numbers, got hidden ", o.hidden,
        " and features ", o.features);
  check(o.directions >= 1, "LeJepa: SIGReg looks along at least one direction, got ", o.directions);
  check(o.lambda >= 0 && o.lambda <= 1, "LeJepa: lambda must be in [0, 1], got ", o.lambda);
  return o;
}

}  // namespace

// The integrand is even, and 0 at 0: knots count twice, the end of the range once.
Tensor sigreg(const Tensor& samples, const Tensor& directions) {
  check(samples.rank() == 3 && directions.rank() == 2 && samples.size(2) == directions.size(0),
        "sigreg: needs samples (V, n, width) and directions (width, M), got ", samples.shape(), " and ",
        directions.shape());
  std::vector<double> t, normal, weight;
  const double step = last_knot / double(knots - 1);
  for (int64_t k = 0; k < knots; ++k) {
    t.push_back(step * double(k));
    normal.push_back(std::exp(-t.back() * t.back() / 2));
    weight.push_back((k == knots - 1 ? step : 2 * step) * normal.back());
  }
  auto row = [&](const std::vector<double>& values) {
    return Tensor::from(values, {knots}).to(samples.dtype()).to(samples.device());
  };
  const Tensor x = unsqueeze(matmul(samples, directions), 3) * row(t);  // (V, n, M, knots)
  const Tensor distance = square(mean(cos(x), {1}) - row(normal)) + square(mean(sin(x), {1}));
  return mean(sum(distance * row(weight), {2})) * double(samples.size(1));
}

Tensor sketch_directions(uint64_t seed, int64_t step, int64_t width, int64_t count, Device device) {
  NoGrad guard;
  const auto words = philox_block(seed, uint64_t(step), 0);
  Generator generator(uint64_t(words[1]) << 32 | words[0]);
  const Tensor normal = randn({width, count}, DType::f32, device, &generator);
  return normal * rsqrt(sum(square(normal), {0}, true));
}

LeJepa::LeJepa(const LeJepaOptions& options, Device device)
    : encoder(encoder_options(checked(options)), device),
      hidden(options.width, options.hidden, {}, device),
      projection(options.hidden, options.features, {}, device),
      options_(options) {
  register_module("encoder", encoder);
  register_module("hidden", hidden);
  register_module("projection", projection);
  encoder.planned_loss = [this](const Tensor& tokens) {  // how many views there are changes no cost
    return compare(projected(tokens, 1), directions(0, 0));
  };
}

Tensor LeJepa::features(const Tensor& images) const { return mean(encoder(images), {1}); }

Tensor LeJepa::directions(uint64_t seed, int64_t step) const {
  return sketch_directions(seed, step, options_.features, options_.directions, projection.weight.device());
}

Tensor LeJepa::projected(const Tensor& tokens, int64_t views) const {
  const Tensor z = projection(gelu(hidden(mean(tokens, {1}))));  // (V B, features)
  return reshape(z, {views, z.size(0) / views, z.size(1)});
}

Tensor LeJepa::compare(const Tensor& z, const Tensor& directions, int64_t global_views) const {
  check(z.rank() == 3 && global_views >= 0 && global_views <= z.size(0), "LeJepa: ", global_views,
        " global views of projected features ", z.shape());
  const Tensor centre = mean(global_views > 0 ? slice(z, 0, 0, global_views) : z, {0}, true);
  return mean(square(z - centre)) * (1 - options_.lambda) + sigreg(z, directions) * options_.lambda;
}

Tensor LeJepa::project(const Tensor& views) const {
  check(views.rank() == 5 && views.size(0) > 0 && views.size(1) > 1,
        "LeJepa: views must be (V, B, channels, image, image) of at least two pictures, got ", views.shape());
  const Shape& s = views.shape();
  return projected(encoder(reshape(views, {s[0] * s[1], s[2], s[3], s[4]})), s[0]);
}

}  // namespace reprise::nn
