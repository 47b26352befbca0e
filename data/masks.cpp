#include "reprise/data/masks.h"

#include <algorithm>
#include <cmath>

#include "reprise/core/listing.h"
#include "reprise/core/memory.h"
#include "reprise/data/transform.h"

namespace reprise::data {
namespace {

constexpr int tries_with_all_constraints = 20;
constexpr uint64_t no_limit = uint64_t(1) << 32;  // of draws, for lists of patches of any length

int64_t patches_of(const MaskOptions& o, double scale) {
  return std::max<int64_t>(int64_t(double(o.rows * o.columns) * scale), 1);
}

int64_t side(double length, int64_t most) { return std::clamp<int64_t>(std::llround(length), 1, most); }

PatchBlock block_of(const MaskOptions& o, int64_t patches, double ratio) {
  return {.height = side(std::sqrt(double(patches) * ratio), o.rows),
          .width = side(std::sqrt(double(patches) / ratio), o.columns)};
}

// The most patches of a target: for each height that rounding makes, the width of the least ratio with that height. A
// draw never reaches the upper end of a range.
int64_t largest_target(const MaskOptions& o) {
  const int64_t fewest = patches_of(o, o.target_scale.low);
  const auto above = int64_t(std::ceil(double(o.rows * o.columns) * o.target_scale.high));
  int64_t largest = 0;
  for (int64_t patches = fewest; patches < std::max(above, fewest + 1); ++patches) {
    const PatchBlock flat = block_of(o, patches, o.target_ratio.low),
                     tall = block_of(o, patches, o.target_ratio.high);
    largest = std::max(largest, flat.area());
    for (int64_t height = flat.height + 1; height <= tall.height; ++height)
      largest = std::max(largest, height * side(double(patches) / (double(height) - 0.5), o.columns));
  }
  return largest;
}

const MaskOptions& checked(const MaskOptions& o) {
  Listing wrong;
  auto check_range = [&](const char* name, const Range& range, double most) {
    if (!(range.low > 0 && range.low <= range.high && range.high <= most))
      wrong.add(name, " from ", range.low, " to ", range.high);
  };
  if (o.rows < 1 || o.columns < 1 || o.rows > 1 << 14 || o.columns > 1 << 14)
    wrong.add("a grid of ", o.rows, " x ", o.columns);
  if (o.targets < 1) wrong.add(o.targets, " targets");
  if (o.least_context < 1) wrong.add(o.least_context, " context patches");
  check_range("target_scale", o.target_scale, 1);
  check_range("target_ratio", o.target_ratio, 1e3);
  check_range("context_scale", o.context_scale, 1);
  check(wrong.empty(), "masks: the options do not fit:", wrong.str());
  if (o.sampling == MaskSampling::reference) return o;
  const int64_t left = o.rows * o.columns - largest_target(o);
  check(left >= o.least_context, "masks: a ", o.rows, " x ", o.columns, " grid leaves ", left,
        " context patches, ", o.least_context, " wanted");
  return o;
}

// Puts the block where the draws say; the last row and the last column are as likely to be touched as the first.
void place(PatchBlock& block, const MaskOptions& o, Draws& draws) {
  block.top = draws.below(o.rows - block.height + 1);
  block.left = draws.below(o.columns - block.width + 1);
}

void mark(const PatchBlock& block, int64_t columns, bool value, std::vector<char>& patches) {
  for (int64_t row = block.top; row < block.top + block.height; ++row)
    std::fill_n(patches.begin() + row * columns + block.left, block.width, char(value));
}

}  // namespace

Masks::Masks(const MaskOptions& options, uint64_t seed) : options_(checked(options)), seed_(seed) {
  if (options.sampling == MaskSampling::reference) check_reference();
}

Masks::Sizes Masks::sizes(int64_t step) const {
  const MaskOptions& o = options_;
  Draws draws(seed_for(Use::mask_sizes, seed_), uint64_t(step), 0, 3);
  if (o.sampling == MaskSampling::reference) return reference_sizes(draws);
  const double scale = draws.uniform(o.target_scale.low, o.target_scale.high);
  const double ratio = draws.uniform(o.target_ratio.low, o.target_ratio.high);
  const double context = draws.uniform(o.context_scale.low, o.context_scale.high);
  return {.target = block_of(o, patches_of(o, scale), ratio),
          .context = block_of(o, patches_of(o, context), 1)};
}

SampleMasks Masks::drawn(const Sizes& sizes, uint64_t key) const {
  const MaskOptions& o = options_;
  Draws draws(seed_for(Use::mask_places, seed_), key, 0, no_limit);
  if (o.sampling == MaskSampling::reference) return reference_drawn(sizes, draws);
  std::vector<char> seen;
  SampleMasks masks;
  for (int64_t attempt = 0; int64_t(masks.context.size()) < o.least_context; ++attempt) {
    const int64_t fallen = std::max<int64_t>(attempt - tries_with_all_constraints + 1, 0);
    invariant(fallen <= o.targets, "masks: no place leaves enough context");
    PatchBlock context = sizes.context;
    place(context, o, draws);
    if (fallen > 0) context = {.height = o.rows, .width = o.columns};
    masks.targets.assign(size_t(o.targets), sizes.target);
    for (PatchBlock& target : masks.targets) place(target, o, draws);
    const int64_t moved = std::max<int64_t>(fallen - 1, 0);  // the last ones, onto the first
    std::fill(masks.targets.end() - moved, masks.targets.end(), masks.targets.front());
    seen.assign(size_t(o.rows * o.columns), false);
    mark(context, o.columns, true, seen);
    for (const PatchBlock& target : masks.targets) mark(target, o.columns, false, seen);
    masks.context.clear();
    for (size_t patch = 0; patch < seen.size(); ++patch)
      if (seen[patch]) masks.context.push_back(int64_t(patch));
  }
  return masks;
}

SampleMasks Masks::of(int64_t step, uint64_t key) const { return drawn(sizes(step), key); }

// Each patch is as likely to stay as the others, save in the reference.
void Masks::shorten(std::vector<int64_t>& context, int64_t count, uint64_t key) const {
  if (options_.sampling == MaskSampling::reference) return context.resize(size_t(count));
  Draws draws(seed_for(Use::mask_cuts, seed_), key, 0, no_limit);
  while (int64_t(context.size()) > count)
    context.erase(context.begin() + draws.below(int64_t(context.size())));
}

BatchMasks Masks::batch(int64_t step, std::span<const uint64_t> keys, int64_t first, int64_t count,
                        Device device) const {
  check(first >= 0 && count > 0 && first + count <= int64_t(keys.size()), "masks: samples ", first, " to ",
        first + count, " of a step of ", keys.size());
  const Sizes sizes = this->sizes(step);
  std::vector<SampleMasks> samples;
  for (uint64_t key : keys) samples.push_back(drawn(sizes, key));
  const auto shortest = std::min_element(samples.begin(), samples.end(), [](const auto& a, const auto& b) {
    return a.context.size() < b.context.size();
  });
  const auto kept = int64_t(shortest->context.size());
  std::vector<int64_t> context, targets;
  for (int64_t row = first; row < first + count; ++row) {
    SampleMasks& sample = samples[size_t(row)];
    shorten(sample.context, kept, keys[size_t(row)]);
    context.insert(context.end(), sample.context.begin(), sample.context.end());
    for (const PatchBlock& block : sample.targets)
      for (int64_t y = block.top; y < block.top + block.height; ++y)
        for (int64_t x = block.left; x < block.left + block.width; ++x)
          targets.push_back(y * options_.columns + x);
  }
  MemoryScope scope(MemoryCategory::data);
  return {.context = Tensor::from(context, {count, kept}, device),
          .targets = Tensor::from(targets, {count, options_.targets, sizes.target.area()}, device)};
}

std::string Masks::text() const {
  const MaskOptions& o = options_;
  auto range = [](const Range& r) { return shortest(r.low) + " to " + shortest(r.high); };
  return detail::join("masks ", o.targets, " of ", range(o.target_scale), " ratio ", range(o.target_ratio),
                      " context ", range(o.context_scale), " least ", o.least_context,
                      o.sampling == MaskSampling::reference ? " as the reference" : "");
}

}  // namespace reprise::data
