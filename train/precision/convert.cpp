#include "reprise/train/precision/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/kernels/optimizer/rounding.h"
#include "reprise/nn/optim/named_state.h"
#include "reprise/train/precision/moments.h"

namespace reprise::train {
namespace {

constexpr const char *master = ":master", *remainder = ":remainder", *largest = "_max";

using ByName = std::map<std::string, Tensor>;

bool has_16_bits(DType dtype) { return size_of(dtype) == 2; }

Tensor on_cpu(const Tensor& x) { return x.detach().to(Device::cpu()).contiguous(); }

// The f32 that a bf16 and its lower half are.
Tensor joined(const Tensor& upper, const Tensor& rest) {
  Tensor whole = Tensor::empty(upper.shape(), DType::f32);
  const Tensor high = on_cpu(upper), low = on_cpu(rest);
  const auto* bits = static_cast<const BFloat16*>(TensorView(high).data);
  const auto* below = static_cast<const char*>(TensorView(low).data);
  auto* to = static_cast<float*>(TensorView(whole).data);
  for (int64_t i = 0; i < upper.numel(); ++i) {
    int16_t rest_of = 0;
    std::memcpy(&rest_of, below + 2 * i, 2);
    to[i] = std::bit_cast<float>(kernels::joined({bits[i].bits, rest_of}));
  }
  return whole;
}

// An f32 in two halves: the bf16, and what it lacks.
std::pair<Tensor, Tensor> split(const Tensor& whole) {
  const Tensor from = on_cpu(whole);
  Shape bytes = whole.shape();
  bytes.push_back(2);
  std::pair<Tensor, Tensor> halves{Tensor::empty(whole.shape(), DType::bf16),
                                   Tensor::empty(bytes, DType::u8)};
  const auto* numbers = static_cast<const float*>(TensorView(from).data);
  auto* upper = static_cast<BFloat16*>(TensorView(halves.first).data);
  auto* rest = static_cast<char*>(TensorView(halves.second).data);
  for (int64_t i = 0; i < whole.numel(); ++i) {
    const kernels::SplitFloat parts = kernels::split(std::bit_cast<uint32_t>(numbers[i]));
    upper[i].bits = parts.upper;
    std::memcpy(rest + 2 * i, &parts.rest, 2);
  }
  return halves;
}

/// Converts the weights and states of one checkpoint, and counts what it has converted.
class Converter {
 public:
  Converter(ByName saved, ByName wanted) : saved_(std::move(saved)), wanted_(std::move(wanted)) {}

  /// The weight, in the dtype of `target`.
  Tensor weight(const std::string& name, const Tensor& given, const Tensor& target) {
    if (!has_16_bits(given.dtype()) && !has_16_bits(target.dtype())) return given;
    const std::string kept = beside(wanted_, name), was_kept = beside(saved_, name);
    const bool has_state = has_updates(name);
    if (given.dtype() == target.dtype() && (kept == was_kept || !has_state)) return given;
    const auto [exact, source] = exact_value(name, given);
    note("weights", given.dtype(), target.dtype(), source);
    saved_.erase(name + was_kept);
    if (!has_16_bits(target.dtype())) return exact;
    if (!kept.empty() && !has_state) begin_state(name);
    return rounded(name, exact, target.dtype());
  }

  /// The states, in the dtypes that are wanted.
  nn::NamedTensors states() {
    for (const auto& [name, form] : wanted_)
      if (const auto given = saved_.find(name);
          given != saved_.end() && name.ends_with("_moment") && given->second.dtype() != form.dtype())
        moment(name, given->second, form.dtype());
    return {saved_.begin(), saved_.end()};
  }

  /// A number that all parameters share, such as a seed: the saved one, if one is wanted; else that of the optimizer.
  void share(const std::string& name) {
    if (!wanted_.contains(name)) saved_.erase(name);
    if (wanted_.contains(name) && !saved_.contains(name)) saved_[name] = wanted_[name];
  }

  std::string said() const {
    std::string text;
    for (const auto& [what, count] : counts_)
      text += (text.empty() ? "" : "; ") + std::to_string(count) + " " + what;
    return text;
  }

 private:
  // What a state keeps beside a weight of 16 bits.
  static std::string beside(const ByName& state, const std::string& name) {
    for (const char* kind : {master, remainder})
      if (state.contains(name + kind)) return kind;
    return "";
  }

  std::pair<Tensor, std::string> exact_value(const std::string& name, const Tensor& given) const {
    if (const auto copy = saved_.find(name + master); copy != saved_.end())
      return {on_cpu(copy->second), ", from their f32 copies"};
    if (const auto rest = saved_.find(name + remainder); rest != saved_.end())
      return {joined(given, rest->second), ", from both halves"};
    return {on_cpu(given).to(DType::f32), ""};
  }

  // The weight of 16 bits, with what is wanted beside it.
  Tensor rounded(const std::string& name, const Tensor& exact, DType dtype) {
    if (wanted_.contains(name + remainder)) {
      auto [upper, rest] = split(exact);
      saved_[name + remainder] = rest;
      return upper;
    }
    if (wanted_.contains(name + master)) saved_[name + master] = exact;
    if (dtype == DType::f16)
      for (const double number : exact.to_vector<double>())
        check(std::abs(number) < 65520 || !std::isfinite(number), "resume: ", name, " holds ", number,
              ", which f16 does not reach");
    return exact.to(dtype);
  }

  void moment(const std::string& name, Tensor given, DType dtype) {
    note(name.substr(name.rfind(':') + 1), given.dtype(), dtype, "");
    const bool positive = name.ends_with("second_moment");
    if (given.dtype() == DType::u8) {
      check(saved_.contains(name + largest), "resume: the optimizer's state has no ", name + largest);
      given = dequantized(given, saved_.at(name + largest), positive);
      saved_.erase(name + largest);
    }
    given = on_cpu(given);
    if (dtype == DType::u8)
      std::tie(saved_[name], saved_[name + largest]) = quantized(given.to(DType::f32), positive);
    else
      saved_[name] = given.to(dtype);
  }

  bool has_updates(const std::string& name) const {
    const auto first = saved_.lower_bound(name + ":");
    for (auto it = first; it != saved_.end() && it->first.starts_with(name + ":"); ++it)
      if (!it->first.ends_with(":updates")) return true;
    return false;
  }

  void begin_state(const std::string& name) {
    for (auto it = wanted_.lower_bound(name + ":"); it != wanted_.end() && it->first.starts_with(name + ":");
         ++it)
      if (!it->first.ends_with(":updates")) {
        check(!it->second.is_hollow(), "resume: ", name,
              " had no update yet, and ranks share its state: ", "convert it in one process");
        saved_[it->first] = on_cpu(it->second).clone();
      }
  }

  void note(const std::string& what, DType was, DType now, const std::string& source) {
    const std::string dtypes = was == now ? std::string(name_of(now)) + " with other digits beside them"
                                          : std::string(name_of(was)) + " to " + std::string(name_of(now));
    ++counts_[what + " from " + dtypes + source];
  }

  ByName saved_, wanted_;
  std::map<std::string, int64_t> counts_;
};

// The parameter that each name of a model's state means: there it may have another one (torchvision's, of a ResNet), or two.
std::map<std::string, std::pair<std::string, Tensor>> parameters_by_state(
    const nn::Module& model, const nn::NamedTensors& parameters) {
  std::map<std::string, std::pair<std::string, Tensor>> found;
  for (const auto& [name, tensor] : model.state_dict())
    for (const auto& parameter : parameters)
      if (parameter.second.is_same(tensor)) found.emplace(name, parameter);
  return found;
}

}  // namespace

std::string convert_precision(Checkpoint& checkpoint, const nn::Module& model, optim::Optimizer& optimizer) {
  NoGrad guard;
  const nn::NamedTensors parameters = model.named_parameters();
  auto by_name = [&](const nn::NamedTensors& state) {
    const nn::NamedTensors named = optim::state_by_name(state, optimizer, parameters);
    return ByName(named.begin(), named.end());
  };
  optimizer.allocate_state();
  Converter converter(by_name(checkpoint.optimizer), by_name(optimizer.state_dict()));
  const auto targets = parameters_by_state(model, parameters);
  nn::NamedTensors converted = checkpoint.parameters;
  ByName weights;
  for (auto& [name, tensor] : converted) {
    const auto target = targets.find(name);
    if (target == targets.end()) continue;
    const auto& [parameter, now] = target->second;
    const auto [weight, is_first] = weights.try_emplace(parameter);
    if (is_first) weight->second = converter.weight(parameter, tensor, now);
    tensor = weight->second;
  }
  for (const auto& [prefix, part] : optimizer.parts()) converter.share(prefix + "seed");
  checkpoint.parameters = std::move(converted);
  checkpoint.optimizer = converter.states();
  return converter.said();
}

}  // namespace reprise::train
