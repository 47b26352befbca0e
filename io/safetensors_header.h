// The header of a safetensors file, checked in full. It is hostile until then, and may be all of the file: it
// stays the text that it is, beside a table of 24 bytes per tensor (the shortest entry of a header takes 52).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/core/dtype.h"
#include "reprise/core/shape.h"

namespace reprise::io {

class JsonReader;

/// Entries of metadata: a map's nodes cost more than their text, and real files have a dozen.
inline constexpr size_t most_safetensors_metadata = 4096;

/// A tensor's place in a file.
struct SafetensorInfo {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t begin, end;  ///< bytes, from the start of the data
};

class SafetensorsHeader {
 public:
  /// `text` is the JSON, which starts at byte `base` of the file `path`; `data_bytes` follow it. Error with
  /// the path and the fact if anything breaks the format.
  SafetensorsHeader(std::string text, const std::string& path, size_t base, uint64_t data_bytes);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  SafetensorInfo operator[](size_t index) const;  ///< in the order of the data
  class Iterator;
  Iterator begin() const;
  Iterator end() const;
  std::optional<SafetensorInfo> find(std::string_view name) const;

 private:
  struct Entry {
    uint64_t begin, end;
    uint32_t value;       // where its JSON object starts in text_; the decoded name ends there
    uint32_t name_bytes;  // of that name
  };

  void parse(const std::string& path, size_t base);
  void read_metadata(JsonReader& json);
  void check_layout(const std::string& path, uint64_t data_bytes);
  void sort_names(const std::string& path);
  std::string_view name(const Entry& entry) const;

  std::string text_;
  std::map<std::string, std::string> metadata_;
  std::vector<Entry> entries_;     // in the order of the data
  std::vector<uint32_t> by_name_;  // positions in entries_, sorted by name
};

/// Makes each SafetensorInfo as a loop gets to it.
class SafetensorsHeader::Iterator {
 public:
  using value_type = SafetensorInfo;
  using difference_type = std::ptrdiff_t;
  Iterator(const SafetensorsHeader& header, size_t index) : header_(&header), index_(index) {}
  SafetensorInfo operator*() const { return (*header_)[index_]; }
  Iterator& operator++() { return ++index_, *this; }
  bool operator==(const Iterator& other) const { return index_ == other.index_; }

 private:
  const SafetensorsHeader* header_;
  size_t index_;
};

inline SafetensorsHeader::Iterator SafetensorsHeader::begin() const { return {*this, 0}; }
inline SafetensorsHeader::Iterator SafetensorsHeader::end() const { return {*this, size()}; }

}  // namespace reprise::io
