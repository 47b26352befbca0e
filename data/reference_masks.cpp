// Masks as the code of the paper draws them (facebookresearch/ijepa), what is odd in it included:
//
//   * one number of a step decides both scale and ratio of the targets;
//   * a block is smaller than the grid, and its corner one short of the last place, so that the last row and the last
//     column are in no block;
//   * targets are drawn once; the context's block is drawn again until more than `least_context` patches of it are left,
//     and after each 20 tries one target more, from the last on, is not taken out of it any longer.
//
// There a target too must have more than `least_context` patches, or the program hangs; here it need not.
#include <algorithm>
#include <cmath>

#include "reprise/data/masks.h"
#include "reprise/data/transform.h"

namespace reprise::data {
namespace {

constexpr int64_t tries_per_target = 20;

PatchBlock block_of(const MaskOptions& o, double number, const Range& scale, const Range& ratio) {
  auto between = [&](const Range& range) { return range.low + number * (range.high - range.low); };
  const auto patches = double(int64_t(double(o.rows * o.columns) * between(scale)));
  auto side = [](double length, int64_t grid) {
    return std::min<int64_t>(std::llrint(length), grid - 1);  // Python rounds halves to even
  };
  return {.height = side(std::sqrt(patches * between(ratio)), o.rows),
          .width = side(std::sqrt(patches / between(ratio)), o.columns)};
}

bool holds(const PatchBlock& block, int64_t row, int64_t column) {
  return row >= block.top && row < block.top + block.height && column >= block.left &&
         column < block.left + block.width;
}

}  // namespace

Masks::Sizes Masks::reference_sizes(Draws& draws) const {
  const MaskOptions& o = options_;
  const double of_targets = draws.uniform(), of_context = draws.uniform();
  return {.target = block_of(o, of_targets, o.target_scale, o.target_ratio),
          .context = block_of(o, of_context, o.context_scale, {1, 1})};
}

// The smallest block of a range is that of its lower ends, or of its upper ratio.
void Masks::check_reference() const {
  const MaskOptions& o = options_;
  check(o.rows > 1 && o.columns > 1, "masks: the reference's blocks leave out the last row and column of a ",
        o.rows, " x ", o.columns, " grid");
  const int64_t least = block_of(o, 0, o.context_scale, {1, 1}).area();
  check(least > o.least_context, "masks: a ", o.rows, " x ", o.columns, " grid has context blocks of ", least,
        " patches, more than ", o.least_context, " wanted");
  for (int64_t part = 0; part <= 1000; ++part) {
    const PatchBlock target = block_of(o, double(part) / 1000, o.target_scale, o.target_ratio);
    check(target.height > 0 && target.width > 0, "masks: a ", o.rows, " x ", o.columns,
          " grid has targets of ", target.height, " x ", target.width, " patches");
  }
}

SampleMasks Masks::reference_drawn(const Sizes& sizes, Draws& draws) const {
  const MaskOptions& o = options_;
  auto place = [&](PatchBlock& block) {
    block.top = draws.below(o.rows - block.height);
    block.left = draws.below(o.columns - block.width);
  };
  SampleMasks masks;
  masks.targets.assign(size_t(o.targets), sizes.target);
  for (PatchBlock& target : masks.targets) place(target);
  PatchBlock block = sizes.context;
  for (int64_t attempt = 0; int64_t(masks.context.size()) <= o.least_context; ++attempt) {
    place(block);
    const auto heeded = size_t(std::max<int64_t>(o.targets - attempt / tries_per_target, 0));
    masks.context.clear();
    for (int64_t row = block.top; row < block.top + block.height; ++row)
      for (int64_t column = block.left; column < block.left + block.width; ++column)
        if (std::none_of(masks.targets.begin(), masks.targets.begin() + int64_t(heeded),
                         [&](const PatchBlock& target) { return holds(target, row, column); }))
          masks.context.push_back(row * o.columns + column);
  }
  return masks;
}

}  // namespace reprise::data
