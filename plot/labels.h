// Where the labels of points stand, so that none covers another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reprise::plot {

/// A rectangle of a picture, in its coordinates.
struct Box {
  double left, top, right, bottom;
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
  bool is_in(const Box& other) const {
    return left >= other.left && right <= other.right && top >= other.top && bottom <= other.bottom;
  }
};

/// The width of a text in a sans-serif font of this size, estimated rather too large than too small.
double text_width(std::string_view text, double font_size = 12);
/// What a text covers whose first letter stands at x on the base line y.
Box text_box(double x, double y, std::string_view text, double font_size = 12);

/// A point that wants a label.
struct LabelledPoint {
  double x, y;
  double radius;
  std::string label;
};

/// Where a label stands.
struct PlacedLabel {
  double x, y;  ///< on the base line: of its first letter, its middle or its last letter
  const char*
      anchor;   ///< which of these: "start", "middle" or "end", as SVG has them; the one next to the point
  bool is_far;  ///< a line leads to its point
  double to_x, to_y;  ///< where that line ends at the label
};

/// For each point a place inside `frame`, beside it where there is room, else further away: no label meets another one, a point or
/// one of `taken`, nor, where that can be had, one of `thin`. Where no place is left, which takes hundreds of labels, it stands beside its point.
std::vector<PlacedLabel> place_labels(const std::vector<LabelledPoint>& points, const Box& frame,
                                      std::vector<Box> taken = {}, const std::vector<Box>& thin = {});

}  // namespace reprise::plot
