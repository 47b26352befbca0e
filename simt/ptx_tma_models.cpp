// Models of barriers in shared memory and of TMA. Compiled without sanitizers.
#include <algorithm>
#include <cstring>

#include "reprise/core/cuda/emulated_region.h"
#include "reprise/simt/ptx_sm90_state.h"

namespace reprise::simt::ptx {

TensorMap make_tensor_map(const TensorTiles& tiles) {
  const char* defect = defect_of(tiles);
  check(!defect, "tensor map: ", defect ? defect : "");
  static_assert(sizeof(TensorTiles) <= sizeof(TensorMap));
  TensorMap map{};
  std::memcpy(map.opaque, &tiles, sizeof tiles);
  return map;
}

void mbarrier_init_fence() { detail::block_state().barriers_fenced = true; }
void fence_proxy_async() {
  detail::block_state().writes_fenced[self.warp] = true;
  fence();
}
void tma_store_commit() {
  auto& state = detail::block_state();
  state.writes_fenced[self.warp] = false;
  ++state.stores[self.linear].groups_committed;
}

namespace detail {
namespace {

constexpr uint64_t initialized = 11;

/// An Mbarrier's 64 bits.
struct Phase {
  uint64_t mark : 4, parity : 1, arrivals_left : 16, arrivals : 16;
  int64_t bytes_left : 27;
};
static_assert(sizeof(Phase) == sizeof(Mbarrier));

Phase& raw_phase(Mbarrier* barrier, Where where) {
  if (shared_offset(barrier, sizeof(Mbarrier), where) % 8 != 0)
    fail(where, "the barrier is not 8-byte aligned");
  return *reinterpret_cast<Phase*>(barrier);
}
Phase& phase_of(Mbarrier* barrier, Where where) {
  Phase& phase = raw_phase(barrier, where);
  if (phase.mark != initialized) fail(where, "the barrier was not initialized");
  return phase;
}

bool end_if_complete(Phase& phase) {
  if (phase.arrivals_left != 0 || phase.bytes_left != 0) return false;
  phase.parity ^= 1;
  phase.arrivals_left = phase.arrivals;
  return true;
}

TensorTiles tiles_of(const TensorMap* map) {
  TensorTiles tiles;
  std::memcpy(&tiles, map->opaque, sizeof tiles);
  return tiles;
}

size_t bytes_of(const TensorTiles& tiles) {
  size_t bytes = 2;
  for (int i = 0; i < tiles.rank; ++i) bytes *= size_t(tiles.box[i]);
  return bytes;
}

uint32_t swizzled(uint32_t offset, Swizzle swizzle) {
  constexpr uint32_t masks[] = {0, 7, 3, 1};
  return offset ^ (offset >> 7 & masks[unsigned(swizzle)]) << 4;
}

/// Calls visit(piece in shared memory, first element in global memory, first and end of the bytes inside the
/// tensor) for each 16 bytes of the tile at `at`.
template <class Visit>
void for_each_piece(const TensorTiles& tiles, uint32_t tile, const std::array<int, max_tile_rank>& at,
                    Where where, const Visit& visit) {
  const size_t row_bytes = size_t(tiles.box[0]) * 2, rows = bytes_of(tiles) / row_bytes;
  for (size_t row = 0; row < rows; ++row) {
    int64_t offset = 0;
    bool inside = true;
    size_t rest = row;
    for (int i = 1; i < tiles.rank; ++i) {
      const int64_t index = at[size_t(i)] + int64_t(rest % size_t(tiles.box[i]));
      rest /= size_t(tiles.box[i]);
      inside = inside && index >= 0 && index < tiles.sizes[i];
      offset += index * tiles.strides[i];
    }
    for (size_t x = 0; x < row_bytes; x += 16) {
      const int64_t first = int64_t(at[0]) * 2 + int64_t(x), end = tiles.sizes[0] * 2;
      const int64_t begin_byte = std::clamp<int64_t>(-first, 0, 16),
                    end_byte = std::clamp<int64_t>(end - first, 0, 16);
      void* piece = shared_ptr(swizzled(tile + uint32_t(row * row_bytes + x), tiles.swizzle), 16, where);
      const auto* global = static_cast<const char*>(tiles.data) + offset * 2 + first;
      visit(piece, global, inside ? begin_byte : 0, inside ? std::max(begin_byte, end_byte) : 0);
    }
  }
}

/// What the hooks of a kernel's own accesses ask (emulator/access_hooks.cpp).
void check_in_use(const char* global, size_t bytes, const char* what, Where where) {
  const cuda::emulated::Region& device = cuda::emulated::region;
  if (device.contains(global) && !device.is_in_use(global, bytes))
    fail(where, what, " outside of device buffers: ", device.described(global, bytes));
}

/// A call of the C library, not inlined: AddressSanitizer checks both addresses.
void* (*volatile copy_bytes)(void*, const void*, size_t) = &std::memcpy;

std::array<int, max_tile_rank> coordinates(const TensorTiles& tiles, const int* at) {
  std::array<int, max_tile_rank> all{};
  std::copy_n(at, tiles.rank, all.begin());
  return all;
}

}  // namespace

BlockState& block_state() {
  static thread_local BlockState state;
  if (state.block != block_serial()) {
    sanitizer::Quiet quiet;
    state = BlockState{};
    state.block = block_serial();
    state.stores.resize(size_t(blockDim.x) * blockDim.y * blockDim.z);
  }
  return state;
}

void mbarrier_init(Mbarrier* barrier, int arrivals, Where where) {
  if (arrivals < 1 || arrivals > 0xffff) fail(where, arrivals, " arrivals are not 1 to 65535");
  raw_phase(barrier, where) = {initialized, 0, uint64_t(arrivals), uint64_t(arrivals), 0};
  block_state().barriers_fenced = false;
}

void mbarrier_arrive(Mbarrier* barrier, int bytes, Where where) {
  Phase& phase = phase_of(barrier, where);
  if (phase.arrivals_left == 0)
    fail(where, "more arrivals than the barrier's ", uint64_t(phase.arrivals), ", or bytes are missing");
  sanitizer::release(barrier);
  phase.bytes_left += bytes;
  --phase.arrivals_left;
  if (end_if_complete(phase)) preempt();
}

void mbarrier_wait(Mbarrier* barrier, int parity, Where where) {
  struct Context {
    const Phase* phase;
    unsigned parity;
  } context{&phase_of(barrier, where), unsigned(parity)};
  wait_until(
      [](void* opaque) {
        const auto* c = static_cast<Context*>(opaque);
        return c->phase->parity != c->parity;
      },
      &context, where);
  sanitizer::acquire(barrier);
}

size_t tile_bytes(const TensorMap* map, const void* shared, int rank, Where where) {
  const TensorTiles tiles = tiles_of(map);
  if (tiles.rank != rank) fail(where, rank, " coordinates for a tensor map of rank ", tiles.rank);
  const size_t bytes = bytes_of(tiles);
  constexpr uint32_t alignments[] = {128, 1024, 512, 256};
  const uint32_t alignment = alignments[unsigned(tiles.swizzle)],
                 offset = shared_offset(shared, bytes, where);
  if (offset % alignment != 0) fail(where, "the tile is not ", alignment, "-byte aligned in shared memory");
  return bytes;
}

void tma_load(void* to, const TensorMap* map, Mbarrier* barrier, const int* at, Where where) {
  phase_of(barrier, where);
  if (!block_state().barriers_fenced) fail(where, "no mbarrier_init_fence since mbarrier_init");
  sanitizer::release(barrier);  // what this thread did precedes what follows the wait
  const TensorTiles tiles = tiles_of(map);
  const uint32_t tile = shared_offset(to, bytes_of(tiles), where);
  shared_undefined(to, bytes_of(tiles));
  sanitizer::Quiet quiet;
  async_submit([=, at = coordinates(tiles, at)] {
    for_each_piece(tiles, tile, at, where,
                   [where](void* piece, const char* global, int64_t begin, int64_t end) {
                     alignas(16) char bytes[16] = {};
                     if (end > begin) {
                       check_in_use(global + begin, size_t(end - begin), "loads from", where);
                       copy_bytes(bytes + begin, global + begin, size_t(end - begin));
                     }
                     __builtin_memcpy(piece, bytes, 16);
                   });
    shared_written(shared_ptr(tile, bytes_of(tiles), where), bytes_of(tiles));
    Phase& phase = phase_of(barrier, where);
    const int64_t bytes = int64_t(bytes_of(tiles));
    // The manual lets bytes come before they are expected; kernels here expect them first.
    if (phase.bytes_left < bytes)
      fail(where, bytes, " bytes land, the barrier expects ", int64_t(phase.bytes_left));
    phase.bytes_left -= bytes;
    end_if_complete(phase);
  });
}

void tma_store(const TensorMap* map, const void* from, const int* at, Where where) {
  BlockState& state = block_state();
  if (!state.writes_fenced[self.warp]) fail(where, "no fence_proxy_async since the tile was written");
  const TensorTiles tiles = tiles_of(map);
  const uint32_t tile = shared_offset(from, bytes_of(tiles), where);
  sanitizer::Quiet quiet;
  StoreQueue& queue = state.stores[self.linear];
  auto store = std::make_shared<PendingStore>(PendingStore{queue.groups_committed});
  queue.stores.push_back(store);
  async_submit([=, at = coordinates(tiles, at)] {
    for_each_piece(tiles, tile, at, where,
                   [where](void* piece, const char* global, int64_t begin, int64_t end) {
                     alignas(16) char bytes[16];
                     __builtin_memcpy(bytes, piece, 16);
                     if (end > begin) {
                       check_in_use(global + begin, size_t(end - begin), "stores", where);
                       copy_bytes(const_cast<char*>(global) + begin, bytes + begin, size_t(end - begin));
                     }
                   });
    store->done = true;
  });
}

void tma_store_wait(int pending, Where where) {
  struct Context {
    const StoreQueue* queue;
    int pending;
  } context{&block_state().stores[self.linear], pending};
  wait_until(
      [](void* opaque) {
        const auto* c = static_cast<Context*>(opaque);
        return std::ranges::all_of(c->queue->stores, [&](const auto& store) {
          return store->done || int(store->group) >= int(c->queue->groups_committed) - c->pending;
        });
      },
      &context, where);
}

}  // namespace detail
}  // namespace reprise::simt::ptx
