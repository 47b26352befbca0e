#include "reprise/nn/print.h"

#include <cmath>
#include <ostream>
#include <unordered_map>
#include <vector>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/error.h"
#include "reprise/nn/described.h"

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

std::string form_of(const Tensor& x) { return reprise::detail::join(x.dtype(), x.shape()); }

}  // namespace

std::string to_string(const Tensor& x, const PrintOptions& options) {
  check(options.edge > 0 && options.digits > 0, "to_string: edge and digits must be above 0, got ",
        options.edge, " and ", options.digits);
  if (!x.defined()) return "undefined";
  if (x.is_hollow()) return "hollow " + form_of(x) + reprise::detail::join(" on ", x.device());
  return Picture(x, options).draw() + " " + form_of(x) + reprise::detail::join(" on ", x.device());
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }

namespace nn {
namespace {

std::string options_of(const Module& module) {
  const auto* layer = dynamic_cast<const Described*>(&module);
  return layer ? layer->extra_repr() : "";
}

// Its class, and its options in brackets.
std::string described(const Module& module) {
  const std::string options = options_of(module);
  return module.class_name() + (options.empty() ? "" : '(' + options + ')');
}

// The modules of a module in the order in which they were registered, each with lines of its own.
class Tree {
 public:
  explicit Tree(const Module& root) : modules_(const_cast<Module&>(root).named_modules()) {
    for (size_t i = 0; i < modules_.size(); ++i) places_[modules_[i].first] = i;
    lines_.resize(modules_.size());
  }

  // A line of the module that has the tensor of that name.
  void add(const std::string& name, const std::string& form) {
    std::string owner = name;
    do {
      const size_t dot = owner.rfind('.');
      owner.resize(dot == std::string::npos ? 0 : dot);
    } while (!places_.contains(owner));
    lines_[places_[owner]] += "\n  " + name + ' ' + form;
  }

  // Before those of a layer with options, and of one that has no others, such as an activation, its class.
  std::string lines() const {
    std::string all;
    for (size_t i = 0; i < modules_.size(); ++i) {
      const auto& [name, module] = modules_[i];
      const bool is_bare = lines_[i].empty() && module->named_children().empty();
      if (i > 0 && (is_bare || !options_of(*module).empty())) all += "\n  " + name + ' ' + described(*module);
      all += lines_[i];
    }
    return all;
  }

 private:
  NamedModules modules_;
  std::unordered_map<std::string, size_t> places_;
  std::vector<std::string> lines_;
};

}  // namespace

std::string to_string(const Module& module) {
  TextStream text;
  text << described(module) << ": " << module.parameter_count() << " parameters";
  Tree tree(module);
  for (const auto& [name, parameter] : module.named_parameters())
    tree.add(name, form_of(parameter) + (parameter.requires_grad() ? "" : ", frozen"));
  for (const auto& [name, buffer] : module.named_buffers()) tree.add(name, form_of(buffer) + ", a buffer");
  text << tree.lines();
  return text.str();
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << to_string(module); }

}  // namespace nn
}  // namespace reprise
