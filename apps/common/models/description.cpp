#include "reprise/apps/common/models/description.h"

namespace reprise::apps {

const std::string& entry_in(const Description& description, const std::string& key) {
  auto found = description.find(key);
  check(found != description.end(), "its description of the model lacks \"", key, "\"");
  return found->second;
}

std::string shortest(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

}  // namespace reprise::apps
