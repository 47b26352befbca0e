// Many tensors in one launch: a table of them that a kernel gets by value. So there is nothing to copy to the
// device first or to keep alive, and a captured graph holds all that it needs.
//
//   struct Entry : TableEntry { const float* data; };
//   __global__ void kernel(const __grid_constant__ TensorTable<Entry> table) {
//     const Piece piece = piece_of_block(table, piece_size);
//     ... elements [piece.begin, piece.end) of table.entries[piece.entry]
//   }
//   for_each_table(entries, piece_size, [&](const TensorTable<Entry>& table, int64_t blocks) { launch ... });
#pragma once

#include <algorithm>
#include <span>

#include "reprise/kernels/cuda/cuts.h"
#include "reprise/kernels/cuda/types.cuh"
#include "reprise/simt/simt.h"

namespace reprise::kernels::device {

struct TableEntry {
  int64_t size;         // elements
  int32_t first_block;  // set by for_each_table
  int32_t place = 0;    // of the tensor in the caller's list, where a kernel asks for it
};

/// As many entries as fit: 154 for AdamW, so that GPT-2 takes one launch. Kernels take 32 KiB by
/// value; the emulator's threads have small stacks.
template <class Entry>
struct TensorTable {
  static constexpr int capacity = int(kTableBytes / sizeof(Entry));
  int count;
  Entry entries[capacity];
};

struct Piece {
  int entry;
  int64_t begin, end;
};

/// What block blockIdx.x works on: a piece of one tensor.
template <class Entry>
__device__ __forceinline__ Piece piece_of_block(const TensorTable<Entry>& table, int64_t piece_size) {
  int low = 0, high = table.count;  // the last entry that does not begin behind this block
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.entries[middle].first_block <= int64_t(blockIdx.x) ? low : high) = middle;
  }
  const Entry& entry = table.entries[low];
  const int64_t begin = (int64_t(blockIdx.x) - entry.first_block) * piece_size;
  return {low, begin, min(entry.size, begin + piece_size)};
}

/// Calls launch(table, blocks) for each tableful of entries; empty tensors are left out.
template <class Entry, class Launch>
void for_each_table(std::span<const Entry> entries, int64_t piece_size, Launch&& launch) {
  TensorTable<Entry> table{};
  int64_t blocks = 0;
  auto flush = [&] {
    if (table.count > 0) launch(table, blocks);
    table.count = 0;
    blocks = 0;
  };
  for (const Entry& entry : entries) {
    if (entry.size == 0) continue;
    if (table.count == TensorTable<Entry>::capacity) flush();
    table.entries[table.count] = entry;
    table.entries[table.count++].first_block = int32_t(blocks);
    blocks += ceil_div(entry.size, piece_size);
  }
  flush();
}

/// Whether `data` is a multiple of N elements, so that packs of N can be used.
template <int N, class T>
__device__ __forceinline__ bool fits_packs(const T* data) {
  return reinterpret_cast<uintptr_t>(data) % (N * sizeof(T)) == 0;
}

}  // namespace reprise::kernels::device
