#include "reprise/apps/common/models/description.h"

#include <algorithm>

namespace reprise::apps {

const std::string& entry_in(const Description& description, const std::string& key) {
  auto found = description.find(key);
  check(found != description.end(), "its description of the model lacks \"", key, "\"");
  return found->second;
}

std::string joined(const std::vector<double>& values) {
  std::string text;
  for (double value : values) text += (text.empty() ? "" : " ") + shortest(value);
  return text;
}

std::string probed_encoder(const Description& description) {
  return description.contains("projector_width") ? "encoder" : "target_encoder";
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
