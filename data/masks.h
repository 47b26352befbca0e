// Masks: which patches of a picture I-JEPA's encoder sees and which it predicts (Assran et al. 2023). They are draws like
// those of transforms: a function of the seed, the step and the samples, whichever worker, rank or restart asks.
#pragma once

#include <span>
#include <vector>

#include "reprise/core/tensor.h"
#include "reprise/data/draws.h"

namespace reprise::data {

/// A block of patches, in patches; positions in a grid count row by row.
struct PatchBlock {
  int64_t top = 0;                                 ///< its first row in the grid
  int64_t left = 0;                                ///< its first column
  int64_t height = 0;                              ///< rows
  int64_t width = 0;                               ///< columns
  int64_t area() const { return height * width; }  ///< patches in it
};

/// What a number is drawn from, uniformly: [low, high).
struct Range {
  double low = 0;   ///< above 0 in MaskOptions
  double high = 0;  ///< `low` or more; if it is the same, so is every draw
};

/// How sizes and places of blocks are drawn.
enum class MaskSampling : uint8_t {
  everywhere,  ///< blocks touch every edge, a context and a target share no patch
  reference,   ///< as the code of the paper draws them (reference_masks.cpp)
};

/// The grid of patches and the blocks in it. Numbers of blocks are the paper's, the grid that of 224 pixels in patches
/// of 16.
struct MaskOptions {
  int64_t rows = 14;              ///< of the grid of patches, at most 16,384
  int64_t columns = 14;           ///< of the grid, at most 16,384
  int64_t targets = 4;            ///< blocks to predict, which may overlap
  Range target_scale{0.15, 0.2};  ///< their area, of the grid's
  Range target_ratio{0.75, 1.5};  ///< height / width
  Range context_scale{0.85, 1};   ///< of the square block that the context is cut from
  int64_t least_context = 10;  ///< patches that a context has at least; the reference's have more than these
  MaskSampling sampling = MaskSampling::everywhere;  ///< of all blocks
};

/// The patches of one sample.
struct SampleMasks {
  /// Ascending: of the context's block those that are in no target. Where too few are left, the reference lets targets
  /// overlap the context.
  std::vector<int64_t> context;
  std::vector<PatchBlock> targets;  ///< in drawn order, all of one size
};

/// The patches of a batch, i64, as `take_tokens` takes them.
struct BatchMasks {
  Tensor context;  ///< (B, K)
  Tensor targets;  ///< (B, targets, M)
};

/// The masks of a run, by step and sample. Thread-safe: nothing changes after construction.
class Masks {
 public:
  /// Error listing the options that do not fit, or if no place of the largest targets leaves enough context: "masks: a
  /// 3 x 3 grid leaves 8 context patches, 10 wanted"; of the reference's, if the smallest block of contexts has no more
  /// than `least_context` patches, or a target has none.
  Masks(const MaskOptions& options, uint64_t seed);

  /// The size of all targets of a step, and of all blocks that its contexts are cut from.
  struct Sizes {
    PatchBlock target;   ///< at (0, 0)
    PatchBlock context;  ///< at (0, 0)
  };
  /// The sizes of a step's blocks, drawn by (seed, step).
  Sizes sizes(int64_t step) const;

  /// The masks of the sample that has this key (Order::Sample) in a step. A block may touch every edge of the grid. Where
  /// the targets leave too little context they are placed anew; after 20 tries the context's block becomes the whole
  /// grid, then one target after the other takes the place of the first. The reference's differ.
  SampleMasks of(int64_t step, uint64_t key) const;

  /// The masks of the samples [first, first + count) of a step. `keys` are those of all its samples, on any rank: the
  /// contexts are cut to the shortest of them, by patches drawn from (seed, key); in the reference to the first ones.
  BatchMasks batch(int64_t step, std::span<const uint64_t> keys, int64_t first, int64_t count,
                   Device device = {}) const;

  /// All of it in one line: part of a run's description.
  std::string text() const;

 private:
  SampleMasks drawn(const Sizes& sizes, uint64_t key) const;
  Sizes reference_sizes(Draws& draws) const;
  SampleMasks reference_drawn(const Sizes& sizes, Draws& draws) const;
  void check_reference() const;
  void shorten(std::vector<int64_t>& context, int64_t count, uint64_t key) const;

  MaskOptions options_;
  uint64_t seed_;
};

}  // namespace reprise::data
