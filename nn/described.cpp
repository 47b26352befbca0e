#include "reprise/nn/described.h"

namespace reprise::nn {

OptionText& OptionText::add(const char* name, Activation value) {
  switch (value) {
    case Activation::none:
      return add_text(name, "none");
    case Activation::relu:
      return add_text(name, "relu");
    case Activation::gelu:
      return add_text(name, "gelu");
    case Activation::gelu_tanh:
      return add_text(name, "gelu_tanh");
    case Activation::silu:
      return add_text(name, "silu");
  }
  throw Bug("OptionText: unknown activation");
}

OptionText& OptionText::add_text(const char* name, const std::string& value) {
  text_ += (text_.empty() ? "" : ", ") + std::string(name) + '=' + value;
  return *this;
}

}  // namespace reprise::nn
