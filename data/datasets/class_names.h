// Names of classes and their numbers.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace reprise::data {

/// The names that a data set's labels are numbers of: those `found` in it, sorted by their bytes ("1", "10", "2"); or, where
/// the set is a part of one whose names are `given`, those: a class that this part lacks keeps its number. Error naming a
/// class that was found but not given, and if there are fewer than two; `where` stands in messages.
std::vector<std::string> names_of_classes(const std::set<std::string>& found,
                                          const std::vector<std::string>& given, const std::string& where);

/// The number of each name. Error if a name is there twice.
std::map<std::string, int64_t> numbers_of_classes(const std::vector<std::string>& names);

/// A file of names, a line each; an empty line ends it.
std::vector<std::string> read_class_names(const std::string& path);

}  // namespace reprise::data
