// The UNet: its stages, and how they are played.
#include "reprise/nn/models/unet.h"

#include "reprise/autograd/anomaly.h"
#include "reprise/core/listing.h"
#include "reprise/nn/batch_norm.h"

namespace reprise::nn {
namespace {

constexpr int64_t deepest = 16;  // more halvings than an image of 65,536 pixels a side has

// Options that every part may rely on.
const UNetOptions& checked(const UNetOptions& o) {
  Listing wrong;
  if (o.channels < 1) wrong.add("at least one channel is needed, got ", o.channels);
  if (o.classes < 1) wrong.add("at least one class is needed, got ", o.classes);
  if (o.features < 1) wrong.add("features must be positive, got ", o.features);
  if (o.depth < 1 || o.depth > deepest) wrong.add("depth must be in [1, ", deepest, "], got ", o.depth);
  if (o.norm == UNetNorm::group && (o.groups < 1 || o.features % o.groups != 0))
    wrong.add("features ", o.features, " are not a multiple of ", o.groups, " groups");
  check(wrong.empty(), "UNet: the options do not fit:", wrong.str());
  return o;
}

// 3 x 3 convolution, norm and ReLU, twice. The names are those of six layers in a row, of which the ReLUs have none.
class DoubleConv : public Layer {
 public:
  DoubleConv(int64_t in, int64_t middle, int64_t out, const UNetOptions& o, Device device)
      : first_(in, middle, 0, o, device), second_(middle, out, 3, o, device) {
    for (Part* part : {&first_, &second_}) {
      register_module(std::to_string(part->number), part->convolution);
      register_module(std::to_string(part->number + 1), part->norm());
    }
  }
  Tensor forward(const Tensor& x) override { return second_(first_(x)); }

 private:
  struct Part {
    int number;  // of the convolution in the row
    Conv2d convolution;
    std::optional<BatchNorm2d> batch_norm;
    std::optional<GroupNorm> group_norm;

    Part(int64_t in, int64_t out, int the_number, const UNetOptions& o, Device device)
        : number(the_number), convolution(in, out, 3, {.padding = 1, .bias = false}, device) {
      if (o.norm == UNetNorm::batch)
        batch_norm.emplace(out, BatchNormLayerOptions(), device);
      else
        group_norm.emplace(o.groups, out, GroupNormOptions(), device);
    }
    Layer& norm() { return batch_norm ? static_cast<Layer&>(*batch_norm) : *group_norm; }
    Tensor operator()(const Tensor& x) {
      const Tensor y = convolution(x);
      return batch_norm ? batch_norm->forward(y, {.activation = Activation::relu}) : relu((*group_norm)(y));
    }
  };
  Part first_, second_;
};

// Twice the sides, then a border of zeros to the skip's; the skip's channels come first.
Tensor joined(const Tensor& skip, const Tensor& x, const std::shared_ptr<ConvTranspose2d>& up) {
  Tensor doubled = up ? (*up)(x)
                      : interpolate(x, {2 * x.size(2), 2 * x.size(3)},
                                    {.mode = Interpolation::bilinear, .align_corners = true});
  const int64_t rows = skip.size(2) - doubled.size(2), columns = skip.size(3) - doubled.size(3);
  if (rows > 0 || columns > 0)
    doubled = pad(
        doubled,
        {.top = rows / 2, .bottom = rows - rows / 2, .left = columns / 2, .right = columns - columns / 2});
  return concat({skip, doubled}, 1);
}

}  // namespace

UNet::UNet(const UNetOptions& options, Device device)
    : RecomputeSetting("UNet"),
      outc(checked(options).features, options.classes, 1, {}, device),
      options_(options) {
  auto add = [&](const std::string& name, int64_t in, int64_t middle, int64_t out) {
    convolutions_.push_back(std::make_shared<DoubleConv>(in, middle, out, options, device));
    register_module(name + ".double_conv", *convolutions_.back());
  };
  const bool bilinear = options.up == UNetUp::bilinear;
  int64_t width = options.features;
  add("inc", options.channels, width, width);
  for (int64_t i = 1; i <= options.depth; ++i, width *= 2) {
    const int64_t out = bilinear && i == options.depth ? width : 2 * width;
    add(reprise::detail::join("down", i, ".maxpool_conv.1"), width, out, out);
  }
  for (int64_t i = 1; i <= options.depth; ++i, width /= 2) {
    const std::string name = reprise::detail::join("up", i);
    ups_.push_back(bilinear ? nullptr
                            : std::make_shared<ConvTranspose2d>(
                                  width, width / 2, 2, ConvTranspose2dLayerOptions{.stride = 2}, device));
    if (!bilinear) register_module(name + ".up", *ups_.back());
    const int64_t out = bilinear && i < options.depth ? width / 4 : width / 2;
    add(name + ".conv", width, width / 2, out);
  }
  register_module("outc.conv", outc);
  set_recompute(options.recompute);
}

// An encoder stage leaves its input behind, as a skip; a decoder stage takes one.
std::vector<recompute::ListLayer> UNet::stages() const {
  std::vector<recompute::ListLayer> stages;
  auto add = [&](std::string name, int64_t takes, int64_t gives, auto run) {
    stages.push_back({takes, gives, [name = std::move(name), run](const TensorList& x) {
                        OpScope scope(name);
                        return run(x);
                      }});
  };
  add("inc", 1, 1, [layers = convolutions_[0]](const TensorList& x) { return TensorList{(*layers)(x[0])}; });
  for (int64_t i = 1; i <= options_.depth; ++i)
    add(reprise::detail::join("down", i), 1, 2, [layers = convolutions_[size_t(i)]](const TensorList& x) {
      return TensorList{x[0], (*layers)(max_pool2d(x[0], 2))};
    });
  for (int64_t i = 1; i <= options_.depth; ++i)
    add(reprise::detail::join("up", i), 2, 1,
        [layers = convolutions_[size_t(options_.depth + i)], up = ups_[size_t(i - 1)]](const TensorList& x) {
          return TensorList{(*layers)(joined(x[0], x[1], up))};
        });
  return stages;
}

// Which classes the pixels have changes no cost.
recompute::Chain UNet::measured(const Tensor& images, const recompute::ProfileOptions& options) {
  auto loss_after = [this](const Tensor& x) {
    const Tensor logits = permute(outc(x), {0, 2, 3, 1});
    const int64_t pixels = logits.numel() / options_.classes;
    return cross_entropy(reshape(logits, {pixels, options_.classes}),
                         zeros({pixels}, DType::i64, x.device()));
  };
  const std::vector<recompute::ListLayer> layers = stages();
  return recompute::profile_step(
      recompute::ListTrainingStep{[&] { return images.detach(); }, layers, loss_after}, options);
}

Tensor UNet::forward(const Tensor& images) {
  const int64_t channels = options_.channels, least = int64_t(1) << options_.depth;
  check(images.rank() == 4 && images.size(1) == channels, "UNet: images must be (N, ", channels,
        ", H, W), got ", images.shape());
  check(images.size(2) >= least && images.size(3) >= least, "UNet: images of ", images.size(2), " x ",
        images.size(3), " pixels cannot be halved ", options_.depth, " times; they need ", least, " x ",
        least);
  if (training()) plan_if_automatic(images, *this);
  const recompute::Plan plan = training() ? recompute_plan() : recompute::plan_none(size());
  return outc(recompute::run_plan(plan, stages(), TensorList{images}, checkpoint_options()).at(0));
}

}  // namespace reprise::nn
