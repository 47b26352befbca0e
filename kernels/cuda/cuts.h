// The sizes at which CUDA kernels cut their work in another way. Tests take sizes on both sides of each.
#pragma once

#include <cstdint>

namespace reprise::kernels {

// Rows (rows.cuh): a warp keeps up to 32 columns per thread in registers, by four instantiations.
inline constexpr int64_t kWarpRows[] = {256, 512, 768, 1024};  ///< their widest rows
inline constexpr int64_t kWidestWarpRow = kWarpRows[3];
inline constexpr int64_t kRowThreads = 512;      ///< of a block that keeps a row
inline constexpr int64_t kRowColumns = 32;       ///< that a thread of it keeps in forward passes
inline constexpr int64_t kGradientColumns = 16;  ///< and in backward passes, which have two rows
inline constexpr int64_t kRowBlocks = 16384;     ///< of a launch; a team that is left over takes further rows
inline constexpr int64_t kRowTeams = 4 * kRowBlocks;  ///< of a launch, where a team is a warp

// Elementwise ops (elementwise/elementwise.cuh), and copies that transpose (elementwise/copy.cu).
inline constexpr int kMapPacks = 512;  ///< of a block
inline constexpr int kCopyTile = 32;   ///< the side of a tile; twice that for pairs of half types

// The gradient of an embedding (index/embedding.cu).
inline constexpr int64_t kSearchedPositions = 2048;  ///< where there are more, they are sorted
inline constexpr int kSortTile = 2048;               ///< positions that a block sorts (index/stable_sort.cuh)

// Many tensors in one launch (tensor_table.cuh).
inline constexpr int64_t kTableBytes = 13 * 1024 + 256;  ///< of the table of a launch: 154 entries for AdamW
inline constexpr int64_t kMostTableEntries = kTableBytes / 16;  ///< no table holds more
inline constexpr int64_t kOptimizerPiece = 4096;  ///< elements of a block in an optimizer's step
inline constexpr int64_t kNormPiece = 16384;      ///< and in a global norm

}  // namespace reprise::kernels
