// The model of wgmma: Note [Wgmma tiles] of ptx_sm90.h, in code. Each warp has a queue of what its part of
// the warpgroup, 16 rows of D, is to do; it is done by the wait, as late as the hardware may. Compiled
// without sanitizers.
#include <algorithm>
#include <cstring>
#include <limits>

#include "reprise/simt/ptx_models.h"
#include "reprise/simt/ptx_sm90_state.h"

namespace reprise::simt::ptx {

void wgmma_fence() { detail::block_state().wgmma[self.warp].fenced = true; }

namespace detail {
namespace {

constexpr int depth = 16;  // of K, of one wgmma

using Row = float __attribute__((vector_size(32)));  // 8 columns

/// The fields of a descriptor, in bytes.
struct Tile {
  explicit Tile(MatrixDescriptor descriptor)
      : start(field(descriptor, 0)), leading(field(descriptor, 16)), stride(field(descriptor, 32)) {}
  static uint32_t field(MatrixDescriptor descriptor, int shift) {
    return uint32_t(descriptor >> shift & 0x3fff) << 4;
  }

  /// Of piece `piece` (16 bytes) of row `row`, for tiles whose rows are 128 bytes.
  uint32_t offset_of(int row, int piece) const {
    const uint32_t plain =
        start + uint32_t(row / 8) * stride + uint32_t(row % 8) * 128 + uint32_t(piece) * 16;
    return plain ^ (plain >> 7 & 7) << 4;
  }
  /// N-major: 8 pieces of a row are next to each other, the next 8 in another tile.
  uint32_t offset_of_columns(int row, int piece) const {
    Tile tile = *this;
    tile.start += uint32_t(piece / 8) * leading;
    return tile.offset_of(row, piece % 8);
  }

  uint32_t start, leading, stride;
};

void check_descriptor(MatrixDescriptor descriptor, Major major, Where where) {
  if (descriptor >> 62 != unsigned(Swizzle::bytes128))
    fail(where, "the emulator models tiles swizzled by 128 bytes only");
  if (descriptor >> 49 & 7) fail(where, "a base offset other than 0 is not modelled");
  const uint32_t within = Tile(descriptor).start % 1024;
  if (major == Major::k ? within >= 128 : within != 0)
    fail(where, "the tile begins ", within, " bytes after a multiple of 1024");
}

float element(ElementType type, uint16_t bits) {
  return type == ElementType::bf16 ? to_float<__nv_bfloat16>(bits) : to_float<__half>(bits);
}

/// Calls visit(row of the matrix's tile, piece, element offset) for the pieces of A's 16 rows, or of all of
/// B.
template <class Visit>
void for_each_piece_of_a(const WgmmaRecord& record, unsigned warp, const Visit& visit) {
  const Tile tile(record.a_descriptor);
  for (int row = 0; row < 16; ++row)
    for (int piece = 0; piece < 2; ++piece)
      visit(row, piece, tile.offset_of(int(warp % 4) * 16 + row, piece));
}
template <class Visit>
void for_each_piece_of_b(const WgmmaRecord& record, const Visit& visit) {
  const Tile tile(record.b_descriptor);
  const bool by_k = record.b_major == Major::k;
  const int rows = by_k ? record.columns : depth, pieces = by_k ? 2 : record.columns / 8;
  for (int row = 0; row < rows; ++row)
    for (int piece = 0; piece < pieces; ++piece)
      visit(row, piece, by_k ? tile.offset_of(row, piece) : tile.offset_of_columns(row, piece));
}

void load_piece(float (&to)[8], ElementType type, uint32_t offset, Where where) {
  uint16_t bits[8];
  std::memcpy(bits, shared_ptr(offset, 16, where), 16);
  for (int i = 0; i < 8; ++i) to[i] = element(type, bits[i]);
}

void load_a(const PendingWgmma& operation, unsigned warp, float (&a)[16][depth]) {
  const WgmmaRecord& record = operation.operands;
  if (!record.a_in_registers) {
    for_each_piece_of_a(record, warp, [&](int row, int piece, uint32_t offset) {
      float values[8];
      load_piece(values, record.type, offset, record.where);
      std::memcpy(&a[row][8 * piece], values, sizeof values);
    });
    return;
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < 4; ++j)
      for (int half = 0; half < 2; ++half)
        a[lane / 4 + 8 * (j % 2)][lane % 4 * 2 + half + 8 * (j / 2)] =
            element(record.type, uint16_t(operation.a[size_t(4 * lane + j)] >> 16 * half));
}

void load_b(const WgmmaRecord& record, float (&b)[depth][128]) {
  for_each_piece_of_b(record, [&](int row, int piece, uint32_t offset) {
    float values[8];
    load_piece(values, record.type, offset, record.where);
    for (int i = 0; i < 8; ++i)
      (record.b_major == Major::k ? b[8 * piece + i][row] : b[row][8 * piece + i]) = values[i];
  });
}

template <class Visit>
void for_each_register(const Accumulators& d, const Visit& visit) {
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < d.columns / 2; ++i) {
      const int row = lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      visit(d.registers[size_t(lane)][i], size_t(row * d.columns + column));
    }
}

void run(const PendingWgmma& operation, unsigned warp) {
  Accumulators& d = *operation.d;
  float a[16][depth];
  alignas(32) float b[depth][128];
  load_a(operation, warp, a);
  load_b(operation.operands, b);
  if (!operation.operands.accumulate) std::fill(d.tile.begin(), d.tile.end(), 0.0f);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < d.columns; column += 8) {
      Row sum, values;
      float* to = &d.tile[size_t(row * d.columns + column)];
      std::memcpy(&sum, to, sizeof sum);
      for (int k = 0; k < depth; ++k) {
        std::memcpy(&values, &b[k][column], sizeof values);
        sum += a[row][k] * values;
      }
      std::memcpy(to, &sum, sizeof sum);
    }
  if (--d.pending == 0) for_each_register(d, [&](float& value, size_t i) { value = d.tile[i]; });
}

/// The pending chain on these accumulators, or a new one: the values are taken out of the registers, which
/// are lost.
std::shared_ptr<Accumulators> chain_of(WgmmaQueue& queue, void** lanes) {
  const auto& first = *static_cast<WgmmaRecord*>(lanes[0]);
  for (auto operation = queue.operations.rbegin(); operation != queue.operations.rend(); ++operation)
    if (operation->d->registers[0] == first.d) return operation->d;
  auto d = std::make_shared<Accumulators>();
  d->columns = first.columns;
  d->tile.resize(size_t(16 * first.columns));
  for (size_t lane = 0; lane < 32; ++lane) d->registers[lane] = static_cast<WgmmaRecord*>(lanes[lane])->d;
  for_each_register(*d, [&](float& value, size_t i) {
    d->tile[i] = value;
    value = std::numeric_limits<float>::quiet_NaN();
  });
  return d;
}

void enqueue(void** lanes, uint32_t arrived) {
  check_full_warp<WgmmaRecord>(lanes, arrived);
  const auto& first = *static_cast<WgmmaRecord*>(lanes[0]);
  WgmmaQueue& queue = block_state().wgmma[self.warp];
  if (!queue.fenced) fail(first.where, "no wgmma_fence since registers may have been written");
  check_descriptor(first.b_descriptor, first.b_major, first.where);
  if (!first.a_in_registers) check_descriptor(first.a_descriptor, Major::k, first.where);
  PendingWgmma operation{chain_of(queue, lanes), first, {}, queue.groups_committed};
  for (size_t lane = 0; lane < 32; ++lane) {
    const auto& record = *static_cast<WgmmaRecord*>(lanes[lane]);
    if (record.a_descriptor != first.a_descriptor || record.b_descriptor != first.b_descriptor ||
        record.accumulate != first.accumulate)
      fail(first.where, "lanes differ in descriptors or in `accumulate`");
    std::memcpy(&operation.a[4 * lane], record.a, sizeof record.a);
  }
  ++operation.d->pending;
  queue.operations.push_back(std::move(operation));
}

bool ends(const WgmmaQueue& queue, const PendingWgmma& operation, int pending) {
  return int(operation.group) < int(queue.groups_committed) - pending;
}

struct WaitRecord {
  int pending;
  const float* d;
  Where where;
};

void run_groups(void** lanes, uint32_t arrived) {
  check_full_warp<WaitRecord>(lanes, arrived);
  const auto& first = *static_cast<WaitRecord*>(lanes[0]);
  WgmmaQueue& queue = block_state().wgmma[self.warp];
  while (!queue.operations.empty() && ends(queue, queue.operations.front(), first.pending)) {
    run(queue.operations.front(), self.warp);
    queue.operations.pop_front();
  }
  queue.fenced = false;
  for (const PendingWgmma& operation : queue.operations)
    if (operation.d->registers[0] == first.d)
      fail(first.where, "the accumulators are still written after this wait");
}

}  // namespace

void wgmma(WgmmaRecord record) { warp_collective(~0u, &record, &enqueue, false, record.where); }

void wgmma_commit(Where where) {
  WaitRecord record{0, nullptr, where};
  warp_collective(
      ~0u, &record, [](void**, uint32_t) { ++block_state().wgmma[self.warp].groups_committed; }, false,
      where);
}

void wgmma_wait(int pending, const float* d, Where where) {
  WaitRecord record{pending, d, where};
  warp_collective(~0u, &record, &run_groups, false, where);
}

std::vector<uint32_t> pieces_read(int pending) {
  sanitizer::Quiet quiet;
  const WgmmaQueue& queue = block_state().wgmma[self.warp];
  std::vector<uint32_t> pieces;
  unsigned count = 0;
  auto mine = [&](int, int, uint32_t offset) {
    if (count++ % 32 == self.lane) pieces.push_back(offset);
  };
  for (const PendingWgmma& operation : queue.operations) {
    if (!ends(queue, operation, pending)) break;
    if (!operation.operands.a_in_registers) for_each_piece_of_a(operation.operands, self.warp, mine);
    for_each_piece_of_b(operation.operands, mine);
  }
  return pieces;
}

}  // namespace detail
}  // namespace reprise::simt::ptx
