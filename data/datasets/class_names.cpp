#include "reprise/data/datasets/class_names.h"

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/io/file.h"

namespace reprise::data {

std::vector<std::string> names_of_classes(const std::set<std::string>& found,
                                          const std::vector<std::string>& given, const std::string& where) {
  std::vector<std::string> names =
      given.empty() ? std::vector<std::string>(found.begin(), found.end()) : given;
  std::map<std::string, int64_t> numbers = numbers_of_classes(names);
  for (const std::string& name : found)
    check(numbers.contains(name), "dataset: ", where, ": has the class ", quote(name),
          ", which is none of the ", names.size(), " classes given");
  check(names.size() >= 2, "dataset: ", where, ": there is nothing to tell apart: classes: ", names.size());
  return names;
}

std::map<std::string, int64_t> numbers_of_classes(const std::vector<std::string>& names) {
  std::map<std::string, int64_t> numbers;
  for (const std::string& name : names)
    check(numbers.emplace(name, int64_t(numbers.size())).second, "dataset: the class ", quote(name),
          " is there twice");
  return numbers;
}

std::vector<std::string> read_class_names(const std::string& path) {
  constexpr uint64_t most_bytes = uint64_t(16) << 20;
  std::string text = io::read_file(path, most_bytes);
  std::vector<std::string> names;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) break;
    names.push_back(line);
    at = end + 1;
  }
  check(!names.empty(), "dataset: ", path, ": names no class");
  return names;
}

}  // namespace reprise::data
