// Kernels for the tests of simt/ptx_sm90.h. They run on a GPU of compute capability 9.0 and in the
// emulator.
#pragma once

#include "reprise/simt/tensor_map.h"
#include "reprise/tests/simt/ptx_kernels.h"

namespace reprise::simt::testing {

/// What a test may get wrong; the emulator reports it, or shows it in the results.
enum class Sm90Misuse {
  none,
  barrier_not_initialized,
  no_barrier_fence,
  too_few_bytes,
  no_wait_for_tiles,
  unaligned_tile,
  no_wgmma_fence,
  no_wgmma_wait,
  wgmma_wait_too_lax,
  descriptor_off_by_a_row,
};

/// One warpgroup: s (64, keys) = q k^T and o (64, columns) = s v, with s rounded to the type in between. q
/// (64, 64), k (keys, 64), v (keys, columns); keys and columns are 64 or 128. Tiles come by TMA, swizzled; q
/// and k are both in shared memory, s comes from registers.
void run_wgmma_products(const Stream& stream, TileType type, int keys, int columns, const uint16_t* q,
                        const uint16_t* k, const uint16_t* v, float* s, float* o,
                        Sm90Misuse misuse = Sm90Misuse::none);

/// Loads a tile of `from` by TMA, adds 1 to the bits of each element, and stores it to `to`.
void run_tma_copy(const Stream& stream, const ptx::TensorTiles& from, const int (&from_at)[4],
                  const ptx::TensorTiles& to, const int (&to_at)[4], bool fence = true);

/// A ring of 2 slots of 128 numbers between a warp that fills `rounds` of them and one that writes them to
/// `to` (rounds, 128), 32 at a time and in turns: mbarriers without TMA.
void run_mbarrier_ring(const Stream& stream, int rounds, int* to);

}  // namespace reprise::simt::testing
