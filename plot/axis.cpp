// Round numbers for axes.
#include "reprise/plot/axis.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace reprise::plot {
namespace {

double round_spacing(double rough) {
  double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

PlotAxis::PlotAxis(double low, double high, int ticks) {
  if (!(std::abs(low) < 1e300 && std::abs(high) < 1e300 && low <= high)) low = 0, high = 1;
  // Ticks closer than what a double can tell apart at this height would never end.
  double narrowest = std::max({std::abs(low), std::abs(high), 1e-300}) * 1e-9;
  if (high - low < narrowest) high = low + (low == 0 ? 1.0 : std::abs(low) * 0.1);
  spacing_ = round_spacing((high - low) / ticks);
  low_ = std::floor(low / spacing_ + 1e-9) * spacing_;
  high_ = std::ceil(high / spacing_ - 1e-9) * spacing_;
}

std::vector<double> PlotAxis::ticks() const {
  std::vector<double> values;
  auto count = int(std::lround((high_ - low_) / spacing_));
  for (int i = 0; i <= count; ++i) {
    double value = low_ + i * spacing_;
    values.push_back(std::abs(value) < spacing_ * 1e-6 ? 0.0 : value);
  }
  return values;
}

std::string PlotAxis::label(double tick) const {
  char text[64];
  double largest = std::max(std::abs(low_), std::abs(high_));
  if (largest >= 1e9 || largest < 1e-4) {
    return std::string(text,
                       std::to_chars(text, text + sizeof(text), tick, std::chars_format::general, 4).ptr);
  }
  int decimals = std::clamp(int(std::ceil(-std::log10(spacing_) - 1e-9)), 0, 12);
  std::string digits(text,
                     std::to_chars(text, text + sizeof(text), tick, std::chars_format::fixed, decimals).ptr);
  size_t whole_end = std::min(digits.find('.'), digits.size()), first = digits[0] == '-' ? 1 : 0;
  for (size_t i = whole_end; i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace reprise::plot
