// The slots of device errors, and what their codes mean.
#include "reprise/core/cuda/error_slot.h"

#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"

namespace reprise::cuda {
namespace {

// Texts by code - 1. Built up while static objects are constructed, in whatever order that happens.
std::vector<std::string>& texts() {
  static auto* all = new std::vector<std::string>;
  return *all;
}

struct Slots {
  std::mutex mutex;
  std::vector<ErrorSlot*> of_device;
};

Slots& slots() {
  static auto* all = new Slots;  // never destroyed: devices may write until the process ends
  return *all;
}

std::string filled(std::string text, std::string_view name, int64_t value) {
  size_t at = text.find(name);
  return at == std::string::npos ? text : text.replace(at, name.size(), std::to_string(value));
}

}  // namespace

ErrorCode::ErrorCode(std::string_view text) {
  texts().emplace_back(text);
  code_ = int(texts().size());
}

ErrorSlot* error_slot(Device device) {
  check_device(device);
  check(device.is_cuda(), "error_slot: ", device, " has none");
  std::lock_guard lock(slots().mutex);
  auto& all = slots().of_device;
  if (all.size() <= size_t(device.index)) all.resize(size_t(device.index) + 1);
  ErrorSlot*& slot = all[size_t(device.index)];
  if (!slot) {
    select_device(device.index);  // or the first device would be woken for another's slot
    slot = new (allocate_pinned(sizeof(ErrorSlot))) ErrorSlot;
  }
  return slot;
}

void throw_device_error(Device device) {
  auto* slot = static_cast<volatile ErrorSlot*>(error_slot(device));
  int code = slot->code;
  if (code == 0) return;
  int64_t row = slot->row, value = slot->value, limit = slot->limit;
  slot->code = 0;
  slot->claimed = 0;
  invariant(code > 0 && size_t(code) <= texts().size(), "device error: unknown code ", code);
  std::string text = filled(texts()[size_t(code) - 1], "{row}", row);
  throw Error(filled(filled(text, "{value}", value), "{limit}", limit));
}

}  // namespace reprise::cuda
