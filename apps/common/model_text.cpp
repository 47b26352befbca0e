#include "reprise/apps/common/model_text.h"

#include <algorithm>
#include <optional>

#include "reprise/core/error.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"
#include "reprise/data/transform.h"

namespace reprise::apps {
namespace {

template <class Number>
Number number_of(const std::string& key, const std::string& text) {
  std::optional<Number> value = number_in<Number>(text);
  check(value && *value >= 0 && *value <= Number(1e9), "\"", key, "\" of the model is ", quote(text),
        ", not ", std::is_integral_v<Number> ? "a whole number" : "a number", " from 0 to 1e9");
  return *value;
}

}  // namespace

const std::string& entry_in(const Description& description, const std::string& key) {
  auto found = description.find(key);
  check(found != description.end(), "its description of the model lacks \"", key, "\"");
  return found->second;
}

template <class Number>
Number number_in_entry(const Description& description, const std::string& key) {
  return number_of<Number>(key, entry_in(description, key));
}
template int64_t number_in_entry(const Description&, const std::string&);
template double number_in_entry(const Description&, const std::string&);

std::string joined(const std::vector<double>& values) {
  std::string text;
  for (double value : values) text += (text.empty() ? "" : " ") + data::shortest(value);
  return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<double> numbers_in(const Description& description, const std::string& key, int64_t channels) {
  std::vector<double> values;
  for (const std::string& part : split(entry_in(description, key), ' '))
    values.push_back(number_of<double>(key, part));
  check(int64_t(values.size()) == channels, "\"", key, "\" of the model has ", values.size(), " numbers for ",
        channels, " channels");
  return values;
}

bool is_first(const Description& description, const std::string& key, std::string_view first,
              std::string_view second) {
  const std::string& text = entry_in(description, key);
  check(text == first || text == second, "\"", key, "\" of the model is ", quote(text), ", not ", first,
        " or ", second);
  return text == first;
}

}  // namespace reprise::apps
