// reprise-recompute explain: what a training step holds, by layer, operation and dtype.
#include <algorithm>
#include <map>

#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/options.h"
#include "reprise/core/bytes.h"
#include "reprise/nn/memory/step_profile.h"
#include "reprise/train/output.h"

namespace reprise::apps::recompute {
namespace {

/// What layers side by side save alike.
struct Layers {
  std::string first, last;
  int64_t count = 1;
  std::vector<nn::SavedCell> cells{};

  std::string name() const {
    if (first.empty()) return "outside";
    return count == 1 ? first : fmt::format("{} .. {}, each", first, last);
  }
};

bool alike(const std::vector<nn::SavedCell>& a, const std::vector<nn::SavedCell>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const nn::SavedCell& x, const nn::SavedCell& y) {
                      return x.op == y.op && x.dtype == y.dtype && x.bytes == y.bytes;
                    });
}

std::vector<Layers> by_layers(const std::vector<nn::SavedCell>& cells) {
  std::vector<Layers> layers;
  for (const nn::SavedCell& cell : cells) {
    auto same = [&](const Layers& one) { return one.first == cell.layer; };
    auto it = std::find_if(layers.begin(), layers.end(), same);
    if (it == layers.end()) it = layers.insert(it, {cell.layer, cell.layer});
    it->cells.push_back(cell);
  }
  std::vector<Layers> merged;
  for (Layers& next : layers) {
    if (!merged.empty() && !next.first.empty() && alike(merged.back().cells, next.cells))
      merged.back().last = next.last, ++merged.back().count;
    else
      merged.push_back(std::move(next));
  }
  return merged;
}

using BytesByDType = std::map<DType, size_t>;

/// "446.0 MiB f32" or "21.0 MiB f32, 242.0 MiB bf16".
std::string described(const BytesByDType& bytes) {
  std::string text;
  for (const auto& [dtype, count] : bytes)
    if (count > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_bytes(count), name_of(dtype));
  return text.empty() ? "nothing" : text;
}

void print_held(const std::string& what, const BytesByDType& bytes) {
  size_t all = 0;
  for (const auto& [dtype, count] : bytes) all += count;
  train::print("{:<28}{:>12}   {}\n", what, format_bytes(all), described(bytes));
}

BytesByDType bytes_of(const nn::NamedTensors& tensors) {
  BytesByDType bytes;
  for (const auto& [name, tensor] : tensors)
    if (tensor.defined()) bytes[tensor.dtype()] += size_t(tensor.numel()) * size_of(tensor.dtype());
  return bytes;
}

}  // namespace

int run_explain(const ExplainCommand& c) {
  check_storage(c.storage, c.workload.precision);
  std::unique_ptr<Workload> made = make_workload(c.workload);
  const Workload& workload = *made;
  train::print("{}, {}\n\n", workload.to_string(), c.workload.precision);
  Trainee trainee(workload, c.storage);
  const auto held_parameters = [&] {  // beside weights and buffers, what a model keeps, as tables of angles
    return allocator(workload.device).stats().by_category[size_t(MemoryCategory::parameters)];
  };
  const size_t held_before = held_parameters();
  trainee.step(0, workload.batch(0, workload.rows));  // makes the optimizer's state
  const Batch batch = workload.batch(0, workload.rows);
  const std::vector<nn::SavedCell> cells = nn::saved_by_layer(trainee.step_case(batch));
  BytesByDType saved;
  for (const nn::SavedCell& cell : cells) saved[cell.dtype] += cell.bytes;
  train::print("{:<22}{:<22}{:<8}{:>12}\n", "layer", "operation", "dtype", "for backward");
  for (const Layers& layers : by_layers(cells))
    for (const nn::SavedCell& cell : layers.cells)
      train::print("{:<22}{:<22}{:<8}{:>12}\n", &cell == &layers.cells.front() ? layers.name() : "", cell.op,
                   name_of(cell.dtype), format_bytes(cell.bytes));
  train::print("\n");
  print_held("for backward, in all", saved);
  const nn::NamedTensors parameters = trainee.model.module->named_parameters();
  print_held("parameters", bytes_of(parameters));
  trainee.forward(0, workload.batch(0, workload.rows)).backward();
  print_held("their gradients", bytes_of(trainee.gradients()));
  print_held("the optimizer's state", bytes_of(trainee.optimizer_state()));
  if (const size_t held = held_parameters(); held > held_before)
    train::print("{:<28}{:>12}   of f32 weights, in 16 bits\n", "shadows", format_bytes(held - held_before));
  return 0;
}

}  // namespace reprise::apps::recompute
