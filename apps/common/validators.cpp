// Checks of option values.
#include "reprise/apps/common/validators.h"

#include <cmath>
#include <optional>

#include "reprise/core/error.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"

namespace reprise::apps {
namespace {

CLI::Validator number(const char* wanted, bool (*fits)(double)) {
  auto complaint = [wanted, fits](const std::string& text) {
    std::optional<double> value = number_in<double>(text);
    bool ok = value && std::isfinite(*value) && fits(*value);
    return ok ? std::string() : quote(text) + " is not " + wanted;
  };
  return {complaint, ""};
}

}  // namespace

CLI::Validator whole_from(int64_t least, int64_t most) {
  auto complaint = [least, most](std::string& text) {
    std::optional<int64_t> value = number_in<int64_t>(text);
    if (!value || *value < least || *value > most)
      return quote(text) + " is not a whole number from " + std::to_string(least) + " to " +
             std::to_string(most);
    text = std::to_string(*value);  // CLI11 would read 010 as octal
    return std::string();
  };
  return {complaint, ""};
}

CLI::Validator or_auto(CLI::Validator other) {
  auto complaint = [other = std::move(other)](std::string& text) {
    if (text == "auto") return std::string();
    const std::string wrong = other(text);
    return wrong.empty() ? wrong : wrong + ", nor auto";
  };
  return {complaint, ""};
}

CLI::Validator number_from_0() {
  return number("a number of at least 0", [](double value) { return value >= 0 && value < 1e300; });
}

CLI::Validator number_above_0() {
  return number("a number above 0", [](double value) { return value > 0 && value < 1e300; });
}

CLI::Validator probability() {
  return number("in [0, 1)", [](double value) { return value >= 0 && value < 1; });
}

CLI::Validator fraction() {
  return number("in (0, 1)", [](double value) { return value > 0 && value < 1; });
}

CLI::Validator power_of_two() {
  return number("a power of two of at least 1", [](double value) {
    int exponent = 0;
    return value >= 1 && value <= 0x1p127 && std::frexp(value, &exponent) == 0.5;
  });
}

CLI::Validator above_0_to_1() {
  return number("in (0, 1]", [](double value) { return value > 0 && value <= 1; });
}

void add_former_option(CLI::App& group, const std::string& name, const std::string& now) {
  group
      .add_option_function<std::string>(
          name, [name, now](const std::string&) { throw CLI::ValidationError(name, now); })
      ->group("")
      ->default_str("");
}

CLI::Validator not_empty() {
  return {[](const std::string& text) { return text.empty() ? std::string("is empty") : std::string(); }, ""};
}

CLI::Validator parsed_by(std::function<void(std::string_view)> parse) {
  auto complaint = [parse = std::move(parse)](const std::string& text) {
    try {
      parse(text);
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string();
  };
  return {complaint, ""};
}

}  // namespace reprise::apps
