// Shared memory that is unkind: undefined at the start of a block, with forbidden gaps between arrays.
#include "reprise/simt/emulator/shared_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "reprise/simt/emulator/sanitizer.h"

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

SharedArena::SharedArena() : data_(map_memory(nullptr, size_)), states_(size_, State::no_array) {}

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
  set_state(first_offset, used - first_offset, State::no_array);
  set_state(first_offset, dynamic_bytes, State::undefined);
  sanitizer::poison(data_, size_);
  sanitizer::unpoison(data_ + first_offset, dynamic_bytes);
  dynamic_bytes_ = dynamic_bytes;
  static_bytes_ = 0;
  end_ = dynamic_end;
  arrays_.assign({{nullptr, "the dynamic array", first_offset, dynamic_bytes}});
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
  set_state(begin, bytes, State::undefined);
  end_ = begin + bytes;
  arrays_.push_back({tag, where.what, begin, bytes});
  return data_ + begin;
}

/// Arrays are apart: bytes that all belong to an array belong to one.
bool SharedArena::holds(size_t offset, size_t bytes) const {
  if (offset >= size_ || bytes > size_ - offset) return false;
  auto first = states_.begin() + ptrdiff_t(offset);
  return std::find(first, first + ptrdiff_t(bytes), State::no_array) == first + ptrdiff_t(bytes);
}

uint32_t SharedArena::offset_of(const void* address, size_t bytes, Where where) const {
  if (!holds(offset(address), bytes))
    fail(where, address, " is not ", bytes, " bytes of an array in shared memory");
  return uint32_t(offset(address));
}

void* SharedArena::at(uint32_t offset, size_t bytes, Where where) const {
  if (!holds(offset, bytes))
    fail(where, "shared memory offset ", offset, " is not ", bytes, " bytes of an array");
  return data_ + offset;
}

void SharedArena::set_state(size_t offset, size_t bytes, State state) {
  sanitizer::Quiet quiet;
  std::memset(states_.data() + offset, int(state), bytes);
}

void SharedArena::set_written(const void* address, size_t bytes, bool written) {
  if (!holds(offset(address), bytes)) return;
  set_state(offset(address), bytes, written ? State::written : State::undefined);
}

std::string SharedArena::note_store(const void* address, size_t bytes) {
  if (!holds(offset(address), bytes))
    return described("stores outside of shared arrays", offset(address), bytes);
  set_state(offset(address), bytes, State::written);
  return {};
}

std::string SharedArena::note_load(const void* address, size_t bytes) const {
  if (!holds(offset(address), bytes))
    return described("loads outside of shared arrays", offset(address), bytes);
  auto first = states_.begin() + ptrdiff_t(offset(address)), last = first + ptrdiff_t(bytes);
  if (std::find(first, last, State::undefined) == last) return {};
  return described("loads shared memory that no thread has written", offset(address), bytes);
}

std::string SharedArena::described(const char* what, size_t offset, size_t bytes) const {
  const Array* nearest = &arrays_.front();
  for (const Array& array : arrays_)
    if (array.offset <= offset) nearest = &array;
  return detail::join(what, ": ", bytes, " bytes at byte ", ptrdiff_t(offset - nearest->offset), " of ",
                      nearest->name, ", which has ", nearest->bytes);
}

}  // namespace reprise::simt
