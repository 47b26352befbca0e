// Note [One buffer on the device]
// Three things must come in order, and computing waits for none but its own rows:
// - The kernel that reads the rows comes after their copy: the current stream waits for the event `copied`.
// - A copy comes after the kernel that read the rows before it: the copy stream waits for `read`. That kernel is the first of
//   a step, so the next copy runs beside the rest of it.
// - Threads write to a slot after its copy: `wait`, by the host, at the next batch. The copy began a step ago.
#include "reprise/data/row_slots.h"

#include "reprise/core/cuda/event.h"
#include "reprise/core/cuda/pinned.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/cuda/stream.h"
#include "reprise/core/error.h"
#include "reprise/core/memory.h"

namespace reprise::data {

struct RowSlots::Crossing {
  Crossing(int64_t slots, size_t bytes, const Shape& shape, Device device)
      : rows(Tensor::empty(shape, DType::u8, device)), stream(device), copied(device), read(device) {
    for (int64_t slot = 0; slot < slots; ++slot) pinned.emplace_back(bytes);
    read.record(current_stream(device));  // what had the buffer's memory before
  }

  std::vector<cuda::PinnedBuffer> pinned;
  Tensor rows;  // u8, on the device
  cuda::OwnedStream stream;
  cuda::Event copied, read;
};

RowSlots::RowSlots(int64_t slots, const Shape& shape, Device device) : bytes_(size_t(numel_of(shape))) {
  MemoryScope scope(MemoryCategory::data);
  if (device.is_cuda())
    crossing_ = std::make_unique<Crossing>(slots, bytes_, shape, device);
  else
    for (int64_t slot = 0; slot < slots; ++slot) rows_.push_back(Tensor::empty(shape, DType::u8));
}

RowSlots::~RowSlots() {
  if (!crossing_) return;
  try {
    crossing_->copied.synchronize();  // a copy that nothing read
    crossing_->read.synchronize();    // on whichever stream
  } catch (const Error&) {}           // an error of the device comes again at its next use
}

std::span<uint8_t> RowSlots::operator[](int64_t slot) {
  if (crossing_) return crossing_->pinned[size_t(slot)].as<uint8_t>();
  return {rows_[size_t(slot)].data<uint8_t>(), bytes_};
}

Tensor RowSlots::on_device(int64_t slot) {
  if (!crossing_) return rows_[size_t(slot)];
  Crossing& c = *crossing_;
  const Stream compute = current_stream(c.rows.device()), &copies = c.stream.get();
  check(!cuda::is_capturing(compute.handle()), "image_loader: a batch crosses to ", c.rows.device(),
        " while a graph is captured; take it before");
  c.read.make_wait(copies);
  cuda::copy_async(c.rows.view().data, (*this)[slot].data(), bytes_, copies.handle());
  c.copied.record(copies);
  c.copied.make_wait(compute);
  return c.rows;
}

void RowSlots::release() {
  if (crossing_) crossing_->read.record(current_stream(crossing_->rows.device()));
}

void RowSlots::wait() {
  if (crossing_) crossing_->copied.synchronize();
}

}  // namespace reprise::data
