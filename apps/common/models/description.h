// The description of a model: what builds it again, as text by names, in a checkpoint's metadata.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"

namespace reprise::apps {

using Description = std::map<std::string, std::string>;

/// Error if there is no such entry.
const std::string& entry_in(const Description& description, const std::string& key);

/// `text` as a number from 0 to 1e9; Error naming the key.
template <class Number>
Number number_of(const std::string& key, const std::string& text) {
  std::optional<Number> value = number_in<Number>(text);
  check(value && *value >= 0 && *value <= Number(1e9), "\"", key, "\" of the model is ", quote(text),
        ", not ", std::is_integral_v<Number> ? "a whole number" : "a number", " from 0 to 1e9");
  return *value;
}
template <class Number>
Number number_in_entry(const Description& description, const std::string& key) {
  return number_of<Number>(key, entry_in(description, key));
}

/// Numbers with a space between them, as an entry has them; and back: Error unless there is one per channel.
std::string joined(const std::vector<double>& values);
std::vector<double> numbers_in(const Description& description, const std::string& key, int64_t channels);

/// Whether an entry is the first of two words. Error if it is neither.
bool is_first(const Description& description, const std::string& key, std::string_view first,
              std::string_view second);

/// Of the networks that a run of reprise-jepa trains, the one whose features are probed: "target_encoder", or "encoder" of
/// a LeJEPA, which has no other.
std::string probed_encoder(const Description& description);

std::vector<std::string> split(const std::string& text, char separator);

}  // namespace reprise::apps
