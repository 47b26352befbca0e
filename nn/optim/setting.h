// Setting: a number with a default that knows whether it was chosen: what would be ignored can be
// refused.
#pragma once

namespace reprise::optim {

/// A number of an optimizer's options. Where it would be ignored, as lr beside groups, a value that was given is an
/// Error and a default is none.
class Setting {
 public:
  /// A value that was given.
  constexpr Setting(double value) : value_(value), is_given_(true) {}
  /// A default.
  static constexpr Setting by_default(double value) {
    Setting setting(value);
    setting.is_given_ = false;
    return setting;
  }
  /// The number.
  constexpr operator double() const { return value_; }
  /// Whether it was given, and is no default.
  constexpr bool is_given() const { return is_given_; }

 private:
  double value_;
  bool is_given_;
};

}  // namespace reprise::optim
