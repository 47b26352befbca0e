// Tensor maps: how the tensor memory accelerator (TMA) of Hopper finds tiles of a tensor in global memory.
// Made on the host, given to a kernel as a parameter `const __grid_constant__ ptx::TensorMap map`.
#pragma once

#include <cstdint>

namespace reprise::simt::ptx {

/// How the 16-byte pieces of rows of a tile are permuted in shared memory, so that neither rows nor columns
/// of pieces fall on the same banks: within 128 (64, 32) bytes, the number of a piece is xor-ed with that of
/// its 128-byte line modulo 8 (4, 2). The values are those of wgmma's matrix descriptor.
enum class Swizzle : unsigned { none = 0, bytes128 = 1, bytes64 = 2, bytes32 = 3 };

/// What a kernel is given; its 128 bytes are TMA's on a GPU and the emulator's there.
struct alignas(128) TensorMap {
  uint64_t opaque[16];
};

inline constexpr int max_tile_rank = 5;

/// Tiles of a tensor of 16-bit elements. Dimension 0 is contiguous.
struct TensorTiles {
  const void* data;  ///< 16-byte aligned
  int rank;          ///< 1 to 5
  int64_t
      sizes[max_tile_rank];  ///< elements; what a tile reads beyond them is zero, what it writes is dropped
  int64_t strides[max_tile_rank];  ///< elements; strides[0] is 1, the others are multiples of 8
  int box[max_tile_rank];          ///< the tile, elements: at most 256 each; rows fill at most the swizzle
  Swizzle swizzle;
};

/// Error if no tensor map can be made of it: what the driver refuses, the emulator does.
TensorMap make_tensor_map(const TensorTiles& tiles);

/// Why no tensor map can be made of it, or null.
inline const char* defect_of(const TensorTiles& tiles) {
  constexpr int64_t element_bytes = 2, max_size = int64_t(1) << 32, max_stride_bytes = int64_t(1) << 40;
  if (reinterpret_cast<uintptr_t>(tiles.data) % 16 != 0) return "the data is not 16-byte aligned";
  if (tiles.rank < 1 || tiles.rank > max_tile_rank) return "the rank is not 1 to 5";
  if (tiles.strides[0] != 1) return "dimension 0 is not contiguous";
  for (int i = 0; i < tiles.rank; ++i) {
    if (tiles.sizes[i] < 1 || tiles.sizes[i] > max_size) return "a size is not 1 to 2^32";
    if (tiles.box[i] < 1 || tiles.box[i] > 256) return "a side of the box is not 1 to 256";
    if (i == 0) continue;
    const int64_t stride_bytes = tiles.strides[i] * element_bytes;
    if (stride_bytes < 0 || stride_bytes >= max_stride_bytes) return "a stride is not in [0, 2^40) bytes";
    if (stride_bytes % 16 != 0) return "a stride is not a multiple of 16 bytes";
  }
  const int64_t row_bytes = tiles.box[0] * element_bytes;
  if (row_bytes % 16 != 0) return "rows of the box are not a multiple of 16 bytes";
  const int64_t swizzled_bytes = tiles.swizzle == Swizzle::bytes128  ? 128
                                 : tiles.swizzle == Swizzle::bytes64 ? 64
                                 : tiles.swizzle == Swizzle::bytes32 ? 32
                                                                     : 512;
  return row_bytes > swizzled_bytes ? "rows of the box are longer than the swizzle" : nullptr;
}

}  // namespace reprise::simt::ptx
