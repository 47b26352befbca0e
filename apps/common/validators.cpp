// Checks of option values.
#include "reprise/apps/common/validators.h"

namespace reprise::apps {
namespace {

CLI::Validator number(const char* wanted, bool (*fits)(double)) {
  auto complaint = [wanted, fits](const std::string& text) {
    double value = 0;
    bool ok = CLI::detail::lexical_cast(text, value) && fits(value);
    return ok ? std::string() : "'" + text + "' is not " + wanted;
  };
  return {complaint, ""};
}

}  // namespace

CLI::Validator whole_from(int64_t least) {
  auto complaint = [least](const std::string& text) {
    int64_t value = 0;
    bool ok = CLI::detail::lexical_cast(text, value) && value >= least;
    return ok ? std::string() : "'" + text + "' is not a whole number of at least " + std::to_string(least);
  };
  return {complaint, ""};
}

CLI::Validator number_from_0() {
  return number("a number of at least 0", [](double value) { return value >= 0 && value < 1e300; });
}

CLI::Validator probability() {
  return number("in [0, 1)", [](double value) { return value >= 0 && value < 1; });
}

}  // namespace reprise::apps
