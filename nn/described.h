// What a printed module says of a layer's options, which the shapes of its parameters do not tell.
#pragma once

#include <string>

#include "reprise/autograd/ops.h"

namespace reprise::nn {

/// A layer with options, the library's or a user's own: `struct Noise : rp::nn::Layer, rp::nn::Described`.
class Described {
 public:
  /// "p=0.5", "stride=(2, 2), groups=4": what stands in brackets behind the class in a printed module; empty: nothing does.
  /// (PyTorch's extra_repr; sizes that the shapes of parameters tell are left out here.)
  virtual std::string extra_repr() const = 0;

 protected:
  ~Described() = default;
};

/// Options as text, one after the other: `OptionText().add("p", p_).add_unless(1, "groups", groups_).str()`.
class OptionText {
 public:
  /// @{
  /// An option that has no default, or is always told.
  template <class T>
  OptionText& add(const char* name, const T& value) {
    return add_text(name, reprise::detail::join(value));
  }
  OptionText& add(const char* name, bool value) { return add_text(name, value ? "true" : "false"); }
  OptionText& add(const char* name, Size2 value) {
    return add_text(name, reprise::detail::join('(', value.height, ", ", value.width, ')'));
  }
  OptionText& add(const char* name, Activation value);
  /// @}
  /// @{
  /// One that is told where it is not the default.
  template <class T>
  OptionText& add_unless(const T& usual, const char* name, const T& value) {
    return value == usual ? *this : add(name, value);
  }
  OptionText& add_unless(int64_t usual, const char* name, Size2 value) {
    return value.height == usual && value.width == usual ? *this : add(name, value);
  }
  /// @}
  const std::string& str() const { return text_; }  ///< all of them

 private:
  OptionText& add_text(const char* name, const std::string& value);

  std::string text_;
};

}  // namespace reprise::nn
