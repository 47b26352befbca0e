// What the emulator says when a kernel is wrong.
#include <cstdio>

#include "reprise/core/cuda/emulated_region.h"
#include "reprise/core/error.h"
#include "reprise/simt/emulator/block.h"

namespace reprise::simt {
namespace {

std::ostream& operator<<(std::ostream& out, const uint3& index) {
  return out << "(" << index.x << ", " << index.y << ", " << index.z << ")";
}

std::ostream& operator<<(std::ostream& out, const Where& where) {
  return out << where.what << " at " << where.here.file_name() << ":" << where.here.line();
}

std::string hex(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", mask);
  return text;
}

bool wait_alike(const Thread& a, const Thread& b) {
  if (a.status != b.status) return false;
  if (a.status == Status::exited) return true;
  return a.where.here.line() == b.where.here.line() && a.mask == b.mask;
}

}  // namespace

void Block::fail(Where where, const std::string& message) const {
  TextStream text;
  text << grid_->name << ": " << where.what << ": " << message << ", at " << where.here.file_name() << ":"
       << where.here.line() << ", block " << ::blockIdx << ", thread " << ::threadIdx;
  throw KernelError(text.str());
}

void Block::note_access(const void* address, size_t bytes, bool store) {
  std::string error = store ? shared_.note_store(address, bytes) : shared_.note_load(address, bytes);
  if (!error.empty()) abandon_for(error);
}

void Block::note_stray(const void* address, size_t bytes, bool store) {
  abandon_for((store ? "stores outside of device buffers: " : "loads from outside of device buffers: ") +
              cuda::emulated::region.described(address, bytes));
}

/// The compiler calls the hooks as functions that cannot throw, so the block is left without unwinding.
void Block::abandon_for(const std::string& error) {
  TextStream text;
  text << grid_->name << ": " << error << ", ";
  if (current_->where.what) text << "after " << current_->where << ", ";
  text << "block " << ::blockIdx << ", thread " << ::threadIdx;
  abandon(text.str());
}

std::string Block::deadlock_report() const {
  TextStream text;
  text << grid_->name << ": deadlock in block " << ::blockIdx;
  for (unsigned i = 0; i < n_warps_; ++i) text << lanes_report(*warps_[i]);
  return text.str();
}

/// A line for each group of lanes that wait in the same place.
std::string Block::lanes_report(const Warp& warp) const {
  TextStream text;
  for (uint32_t left = warp.exist; left != 0;) {
    const Thread& thread = *warp.threads[unsigned(std::countr_zero(left))];
    uint32_t alike = 0;
    for_each_bit(left, [&](unsigned lane) {
      if (wait_alike(thread, *warp.threads[lane])) alike |= bit(lane);
    });
    left &= ~alike;
    text << "\n  warp " << warp.number << ", lanes " << hex(alike) << ": ";
    if (thread.status == Status::exited)
      text << "exited";
    else
      text << "wait in " << thread.where;
    if (thread.status == Status::at_collective) text << " with mask " << hex(thread.mask);
  }
  return text.str();
}

}  // namespace reprise::simt
