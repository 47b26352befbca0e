// A confusion matrix as a picture: which class is taken for which.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::plot {

/// Counts of a classifier's answers: `counts[t * n + p]` images of class t were taken for class p, n = names.size().
struct Confusion {
  std::vector<std::string> names;
  std::vector<int64_t> counts{};

  int64_t at(size_t truth, size_t answer) const { return counts[truth * names.size() + answer]; }
  int64_t images_of(size_t truth) const;    ///< images of a class
  int64_t answers_of(size_t answer) const;  ///< images that were taken for it
  double recall(size_t truth) const;        ///< share of a class that is recognised; NaN without images
  double precision(size_t answer) const;    ///< share of the answers that are right; NaN without answers
};

/// The matrix with its counts, rows the true classes, and recall and precision beside it. Of more than
/// `most_classes` the ones with the lowest recall are shown.
std::string draw_confusion(const Confusion& confusion, size_t most_classes = 40);

}  // namespace reprise::plot
