// Setting: a number with a default that knows whether it was chosen: what would be ignored can be
// refused.
#pragma once

namespace reprise::optim {

class Setting {
 public:
  constexpr Setting(double value) : value_(value), is_given_(true) {}
  static constexpr Setting by_default(double value) {
    Setting setting(value);
    setting.is_given_ = false;
    return setting;
  }
  constexpr operator double() const { return value_; }
  constexpr bool is_given() const { return is_given_; }

 private:
  double value_;
  bool is_given_;
};

}  // namespace reprise::optim
