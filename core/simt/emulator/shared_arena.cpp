// Shared memory that is unkind: undefined at the start of a block, with forbidden gaps between arrays.
#include "reprise/core/simt/emulator/shared_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "reprise/core/simt/emulator/sanitizer.h"

namespace reprise::simt {
namespace {

constexpr int undefined_byte = 0xff;

char* map_memory(void* wish, size_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | (wish ? MAP_FIXED : 0);
  void* memory = mmap(wish, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  check(memory != MAP_FAILED, "emulator: no memory for a block's shared memory, ", bytes, " bytes");
  return static_cast<char*>(memory);
}

}  // namespace

SharedArena::SharedArena() : data_(map_memory(nullptr, size_)) {}

SharedArena::~SharedArena() {
  end_grid();
  munmap(data_, size_);
}

void SharedArena::start_block(size_t dynamic_bytes) {
  sanitizer::Quiet quiet;
  sanitizer::unpoison(data_, size_);
  const size_t dynamic_end = first_offset + dynamic_bytes;
  const size_t used = std::max(end_, dynamic_end);
  if (sanitizer::thread)
    map_memory(data_, used);  // new: what the last block did to it is no race with this one
  std::memset(data_ + first_offset, undefined_byte, used - first_offset);
  sanitizer::poison(data_, size_);
  sanitizer::unpoison(data_ + first_offset, dynamic_bytes);
  dynamic_bytes_ = dynamic_bytes;
  static_bytes_ = 0;
  end_ = dynamic_end;
  arrays_.clear();
}

void SharedArena::end_grid() { sanitizer::unpoison(data_, size_); }

void* SharedArena::static_array(const void* tag, size_t bytes, size_t alignment, Where where) {
  for (const Array& array : arrays_)
    if (array.tag == tag) return data_ + array.offset;
  sanitizer::Quiet quiet;
  const size_t begin = (end_ + gap_bytes + alignment - 1) / alignment * alignment;
  static_bytes_ += bytes;
  if (static_bytes_ > static_limit_bytes)
    fail(where, static_bytes_, " bytes of static shared memory, the limit is ", static_limit_bytes);
  if (dynamic_bytes_ + static_bytes_ > limit_bytes)
    fail(where, dynamic_bytes_, " bytes of dynamic and ", static_bytes_,
         " of static shared memory, the limit is ", limit_bytes);
  if (begin + bytes > size_) fail(where, "too many shared arrays");
  sanitizer::unpoison(data_ + begin, bytes);
  std::memset(data_ + begin, undefined_byte, bytes);
  end_ = begin + bytes;
  arrays_.push_back({tag, begin, bytes});
  return data_ + begin;
}

bool SharedArena::holds(size_t offset, size_t bytes) const {
  auto inside = [&](size_t begin, size_t size) { return offset >= begin && offset + bytes <= begin + size; };
  return inside(first_offset, dynamic_bytes_) ||
         std::any_of(arrays_.begin(), arrays_.end(),
                     [&](const Array& array) { return inside(array.offset, array.bytes); });
}

uint32_t SharedArena::offset_of(const void* address, size_t bytes, Where where) const {
  const size_t offset = size_t(static_cast<const char*>(address) - data_);
  if (!holds(offset, bytes)) fail(where, address, " is not ", bytes, " bytes of an array in shared memory");
  return uint32_t(offset);
}

void* SharedArena::at(uint32_t offset, size_t bytes, Where where) const {
  if (!holds(offset, bytes))
    fail(where, "shared memory offset ", offset, " is not ", bytes, " bytes of an array");
  return data_ + offset;
}

}  // namespace reprise::simt
