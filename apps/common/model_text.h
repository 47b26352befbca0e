// What a checkpoint says of its model, as text: entries written and read, with Errors that name them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::apps {

using Description = std::map<std::string, std::string>;

/// Error if there is no such entry.
const std::string& entry_in(const Description& description, const std::string& key);

/// An entry that is a number from 0 to 1e9, whole for int64_t. Error naming entry and text if it is none.
template <class Number>
Number number_in_entry(const Description& description, const std::string& key);
extern template int64_t number_in_entry(const Description&, const std::string&);
extern template double number_in_entry(const Description&, const std::string&);

/// Numbers with a space between them, as an entry has them; and back: Error unless there is one per channel.
std::string joined(const std::vector<double>& values);
std::vector<double> numbers_in(const Description& description, const std::string& key, int64_t channels);

/// Whether an entry is the first of two words. Error if it is neither.
bool is_first(const Description& description, const std::string& key, std::string_view first,
              std::string_view second);

std::vector<std::string> split(const std::string& text, char separator);

}  // namespace reprise::apps
