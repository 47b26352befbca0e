#include "reprise/nn/print.h"

#include <cmath>
#include <ostream>
#include <vector>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/error.h"

namespace reprise {
namespace {

std::vector<std::string> texts_of(const Tensor& x, int digits) {
  std::vector<std::string> texts;
  auto add = [&](const auto& value) {
    TextStream text;
    text.precision(digits);
    text << value;
    texts.push_back(text.str());
  };
  if (!is_floating(x.dtype()))
    for (int64_t value : x.to_vector<int64_t>()) {
      if (x.dtype() == DType::boolean)
        texts.emplace_back(value ? "true" : "false");
      else
        add(value);
    }
  else
    for (double value : x.to_vector<double>()) add(std::isnan(value) ? std::abs(value) : value);
  return texts;
}

// Elements of a tensor of which some dimensions were cut to their edges.
class Picture {
 public:
  Picture(const Tensor& x, const PrintOptions& options) : edge_(options.edge) {
    NoGrad guard;
    Tensor shown = x.detach();
    for (int d = 0; d < x.shape().size(); ++d) {
      cut_.push_back(x.numel() > options.most && x.size(d) > 2 * options.edge);
      if (cut_.back())
        shown =
            concat({shown.slice(d, 0, options.edge), shown.slice(d, x.size(d) - options.edge, x.size(d))}, d);
    }
    shape_ = shown.shape();
    texts_ = texts_of(shown, options.digits);
  }

  std::string draw() {
    std::string out;
    draw(0, out);
    return out;
  }

 private:
  void draw(int dim, std::string& out) {
    if (dim == shape_.size()) {
      out += texts_[next_++];
      return;
    }
    const bool is_row = dim + 1 == shape_.size();
    const std::string separator = is_row ? ", " : ",\n" + std::string(size_t(dim) + 1, ' ');
    out += '[';
    for (int64_t i = 0; i < shape_[dim]; ++i) {
      if (i > 0) out += separator;
      if (cut_[size_t(dim)] && i == edge_) out += "..." + separator;
      draw(dim + 1, out);
    }
    out += ']';
  }

  int64_t edge_;
  std::vector<bool> cut_;  // by dimension
  Shape shape_;
  std::vector<std::string> texts_;
  size_t next_ = 0;
};

std::string form_of(const Tensor& x) { return detail::join(x.dtype(), x.shape()); }

}  // namespace

std::string to_string(const Tensor& x, const PrintOptions& options) {
  check(options.edge > 0 && options.digits > 0, "to_string: edge and digits must be above 0, got ",
        options.edge, " and ", options.digits);
  if (!x.defined()) return "undefined";
  if (x.is_hollow()) return "hollow " + form_of(x) + detail::join(" on ", x.device());
  return Picture(x, options).draw() + " " + form_of(x) + detail::join(" on ", x.device());
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }

namespace nn {

std::string to_string(const Module& module) {
  TextStream text;
  text << module.class_name() << ": " << module.parameter_count() << " parameters";
  for (const auto& [own, parameter] : module.named_parameters())
    text << "\n  " << own << ' ' << form_of(parameter) << (parameter.requires_grad() ? "" : ", frozen");
  for (const auto& [own, buffer] : module.named_buffers())
    text << "\n  " << own << ' ' << form_of(buffer) << ", a buffer";
  return text.str();
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << to_string(module); }

}  // namespace nn
}  // namespace reprise
