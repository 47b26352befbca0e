// The shared memory of one block at a time: the dynamic array, then the static ones with gaps between them,
// and which of its bytes have been written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "reprise/simt/emulator/runtime.h"

namespace reprise::simt {

class SharedArena {
 public:
  static constexpr size_t limit_bytes = 227 * 1024;        ///< of a block, static and dynamic
  static constexpr size_t static_limit_bytes = 48 * 1024;  ///< of the static arrays

  SharedArena();
  ~SharedArena();
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  /// Forgets the last block. All bytes become 0xff, so that what was never written reads as NaN or -1.
  void start_block(size_t dynamic_bytes);

  /// After the last block: nothing of it is forbidden to its next holder.
  void end_grid();

  void* dynamic() const { return data_ + first_offset; }
  void* static_array(const void* tag, size_t bytes, size_t alignment, Where where);
  uint32_t offset_of(const void* address, size_t bytes, Where where) const;
  void* at(uint32_t offset, size_t bytes, Where where) const;

  /// Tells what was stored, or lost again, by those whose accesses are not noted.
  void set_written(const void* address, size_t bytes, bool written);

  /// Notes an access of a kernel; what is wrong with it, empty if nothing. The address is in the arena.
  std::string note_store(const void* address, size_t bytes);
  std::string note_load(const void* address, size_t bytes) const;
  bool contains(const void* address) const { return offset(address) < size_; }

  /// Whether all the bytes are written: a load of them is right, and a store changes nothing.
  template <size_t bytes>
  bool is_written(const void* address) const {
    constexpr State all[16] = {State::written, State::written, State::written, State::written,
                               State::written, State::written, State::written, State::written,
                               State::written, State::written, State::written, State::written,
                               State::written, State::written, State::written, State::written};
    static_assert(bytes <= sizeof all);
    return offset(address) + bytes <= size_ && std::memcmp(&states_[offset(address)], all, bytes) == 0;
  }

 private:
  enum class State : uint8_t { no_array, undefined, written };

  // Offset 0 is no shared memory, so that a null pointer is none. The dynamic array, aligned to 1024, comes
  // first: all of it can be named by the 18 address bits of a matrix descriptor.
  static constexpr size_t first_offset = 1024;
  static constexpr size_t gap_bytes = 256;  // between arrays, forbidden under AddressSanitizer
  static constexpr size_t size_ = 320 * 1024;

  struct Array {
    const void* tag;
    const char* name;
    size_t offset, bytes;
  };
  size_t offset(const void* address) const { return size_t(static_cast<const char*>(address) - data_); }
  bool holds(size_t offset, size_t bytes) const;
  void set_state(size_t offset, size_t bytes, State state);
  std::string described(const char* what, size_t offset, size_t bytes) const;

  char* data_ = nullptr;
  size_t dynamic_bytes_ = 0;
  size_t static_bytes_ = 0;
  size_t end_ = size_;  // of what this block has used
  std::vector<Array> arrays_;
  std::vector<State> states_;  // of each byte
};

}  // namespace reprise::simt
