// A text of made-up words, first weights and the rows of each step, all of integers of one generator:
// tools/parity_curves.py (GeneratedText) makes the same bits for PyTorch.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::testing {

/// A stream of 64-bit numbers: SplitMix64 (Steele et al. 2014) that starts at a hash of its key.
class Words {
 public:
  explicit Words(uint64_t key) : state_(mixed(key)) {}
  uint64_t next() { return mixed(state_ += 0x9E3779B97F4A7C15); }
  /// The least of some draws below `below`: small numbers come often.
  int64_t least(int times, int64_t below) {
    int64_t found = below;
    for (int i = 0; i < times; ++i) found = std::min(found, int64_t((next() >> 32) * uint64_t(below) >> 32));
    return found;
  }

 private:
  static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
  }
  uint64_t state_;
};

struct GeneratedText {
  static constexpr int64_t letters = 60, vocab = 3 + letters;  // after a blank, a full stop and a line's end

  /// Words are walks from a letter to one of its four successors; some words are frequent.
  static std::vector<int64_t> tokens() {
    constexpr int64_t successors = 4, count = 100, length = 20000;
    Words draw(1);
    std::vector<std::vector<int64_t>> after(letters), words(count);
    for (auto& of_letter : after)
      for (int64_t i = 0; i < successors; ++i) of_letter.push_back(draw.least(1, letters));
    for (auto& word : words) {
      int64_t letter = draw.least(2, letters);
      const int64_t size = 2 + draw.least(1, 7);
      for (int64_t i = 0; i < size; ++i) {
        word.push_back(3 + letter);
        letter = after[size_t(letter)][size_t(draw.least(1, successors))];
      }
    }
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < length; ++i) {
      const auto& word = words[size_t(draw.least(3, count))];
      ids.insert(ids.end(), word.begin(), word.end());
      const bool ends = draw.least(1, 10) == 0;
      ids.insert(ids.end(), {ends ? 1 : 0});
      if (ends) ids.push_back(2);
    }
    return ids;
  }

  /// Of a parameter of this name: numbers of mean 0 and this deviation, each a sum of four uniform ones.
  static Tensor weight(uint64_t seed, std::string_view name, const Shape& shape, double deviation) {
    uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
    for (char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001B3;
    Words draw(seed ^ hash);
    std::vector<float> numbers(size_t(numel_of(shape)));
    for (float& number : numbers) {
      const uint64_t word = draw.next();
      double sum = 0;
      for (int shift : {0, 16, 32, 48}) sum += double(word >> shift & 0xFFFF);
      number = float((sum - 131070.0) * (deviation / 37837.2));
    }
    return Tensor::from(numbers, shape);
  }

  /// (rows, length): the tokens that a step trains on, each row from a place of its own.
  static std::vector<int64_t> rows(const std::vector<int64_t>& text, uint64_t seed, int step, int64_t rows,
                                   int64_t length) {
    Words draw(seed << 32 | uint64_t(step));
    std::vector<int64_t> ids;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t begin = draw.least(1, int64_t(text.size()) - length + 1);
      ids.insert(ids.end(), text.begin() + begin, text.begin() + begin + length);
    }
    return ids;
  }
};

}  // namespace reprise::testing
