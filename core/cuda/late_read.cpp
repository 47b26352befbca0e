#include "reprise/core/cuda/late_read.h"

#include <cstring>

#include "reprise/core/cuda/error_slot.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"
#include "reprise/core/stream.h"

namespace reprise::cuda {
namespace {

constexpr size_t slot_bytes = 8;

double number_at(const char* slot, DType dtype) {
  auto as = [&]<class T>(T value) {
    std::memcpy(&value, slot, sizeof(T));
    return double(value);
  };
  switch (dtype) {
    case DType::f64:
      return as(double());
    case DType::f32:
      return as(float());
    case DType::i64:
      return as(int64_t());
    default:
      return as(int32_t());
  }
}

}  // namespace

LateRead::LateRead(Device device, size_t count) : device_(device), slots_(slot_bytes * count) {
  if (device.is_cuda()) copied_.emplace(device);
}

LateRead::~LateRead() {
  try {
    if (copied_ && !copied_->is_done()) copied_->synchronize();
  } catch (const std::exception&) {  // the device is gone, and its copies
  }
}

void LateRead::start(std::span<const TensorView> numbers) {
  constexpr auto op = "LateRead";
  check(numbers.size() * slot_bytes <= slots_.bytes(), op, ": ", numbers.size(), " numbers, made for ",
        slots_.bytes() / slot_bytes);
  for (const TensorView& number : numbers) {
    check(number.numel() == 1 && number.device == device_, op, ": a tensor of shape ", number.shape, " on ",
          number.device, ", needs one element on ", device_);
    check(number.dtype == DType::f64 || number.dtype == DType::f32 || number.dtype == DType::i64 ||
              number.dtype == DType::i32,
          op, ": needs f64, f32, i64 or i32, is ", number.dtype);
  }
  if (copied_) finish();  // its slots are written to
  const Stream stream = current_stream(device_);
  check(!copied_ || !is_capturing(stream.handle()), op, ": while a graph is captured");
  dtypes_.clear();
  char* slot = slots_.as<char>().data();
  for (const TensorView& number : numbers) {
    if (copied_)
      copy_async(slot, number.data, size_of(number.dtype), stream.handle());
    else
      std::memcpy(slot, number.data, size_of(number.dtype));
    dtypes_.push_back(number.dtype);
    slot += slot_bytes;
  }
  if (copied_) copied_->record(stream);
}

bool LateRead::is_done() const { return !copied_ || copied_->is_done(); }

std::vector<double> LateRead::finish() {
  if (copied_) {
    if (!copied_->is_done()) copied_->synchronize();
    throw_device_error(device_);
  }
  std::vector<double> values;
  for (size_t i = 0; i < dtypes_.size(); ++i)
    values.push_back(number_at(slots_.as<char>().data() + slot_bytes * i, dtypes_[i]));
  return values;
}

}  // namespace reprise::cuda
