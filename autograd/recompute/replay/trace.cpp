// Describing operations and hashing their results.
#include "reprise/autograd/recompute/replay/trace.h"

#include <cstring>
#include <iomanip>

#include "reprise/autograd/grad_mode.h"
#include "reprise/core/hash.h"

namespace reprise::recompute {
namespace {

std::string line_of(const Trace& trace, size_t i) {
  return i < trace.size() ? std::string(trace[i].name) + " " + trace[i].results : std::string("-");
}

}  // namespace

uint64_t hash_of(const Tensor& x) {
  NoGrad guard;
  Tensor host = x.detach().contiguous().to(Device::cpu());
  uint64_t hash = mix(uint64_t(host.dtype()) + 1);
  for (int d = 0; d < host.rank(); ++d) hash = mix(hash ^ uint64_t(host.size(d)));
  const auto* bytes = static_cast<const unsigned char*>(host.view().data);
  size_t count = size_t(host.numel()) * size_of(host.dtype());
  for (size_t at = 0; at < count; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min<size_t>(8, count - at));
    hash = mix(hash ^ word) + at;
  }
  return hash;
}

TracedOp traced(const char* name, const TensorList& results, bool with_hash) {
  TracedOp op{.name = name};
  TextStream text;
  for (const Tensor& y : results) {
    if (!y.defined()) continue;
    text << (text.tellp() > 0 ? ", " : "") << y.dtype() << y.shape();
    if (with_hash) op.hash = mix(op.hash ^ hash_of(y));
  }
  op.results = text.str();
  return op;
}

std::string side_by_side(const Trace& first, const Trace& replay) {
  size_t width = 9;
  for (size_t i = 0; i < first.size(); ++i) width = std::max(width, line_of(first, i).size());
  TextStream text;
  text << "\n  " << std::left << std::setw(int(width)) << "first run"
       << "   replay";
  for (size_t i = 0; i < std::max(first.size(), replay.size()); ++i) {
    std::string left = line_of(first, i), right = line_of(replay, i);
    bool same = left == right && first[i].hash == replay[i].hash;
    text << '\n' << (same ? "  " : "> ") << std::setw(int(width)) << left << "   " << right;
  }
  return text.str();
}

}  // namespace reprise::recompute
