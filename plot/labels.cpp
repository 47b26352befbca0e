#include "reprise/plot/labels.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace reprise::plot {
namespace {

// Of the directions in which a label may lie, the nearest to reading order first: to the right, to the left, above, below, and between.
struct Direction {
  double x, y;
};
constexpr Direction directions[] = {{1, 0},       {-1, 0},     {0.7, -0.7}, {0.7, 0.7},
                                    {-0.7, -0.7}, {-0.7, 0.7}, {0, -1},     {0, 1}};

// The label's letters when it lies so far from the point: its near edge, or its middle above and below.
Box box_at(const LabelledPoint& point, const Direction& d, double distance) {
  const Box at_zero = text_box(0, 0, point.label);
  const double width = at_zero.right, height = at_zero.bottom - at_zero.top;
  const double x = point.x + d.x * distance, y = point.y + d.y * distance;
  const double left = d.x > 0 ? x : d.x < 0 ? x - width : x - width / 2;
  const double top = d.y > 0 ? y : d.y < 0 ? y - height : y - height / 2;
  return {left, top, left + width, top + height};
}

struct Place {
  Box box;
  Direction direction;
  double distance;
};

constexpr double near = 80;  // of its point

bool is_free(const Box& box, const std::vector<Box>& taken) {
  return std::ranges::none_of(taken, [&](const Box& other) { return box.meets(other); });
}

std::optional<Place> free_place_near(const LabelledPoint& point, const Box& frame,
                                     const std::vector<Box>& taken, const std::vector<Box>& thin) {
  for (double distance = point.radius + 4; distance < near; distance *= 1.35)
    for (const Direction& d : directions) {
      const Box box = box_at(point, d, distance);
      if (box.is_in(frame) && is_free(box, taken) && is_free(box, thin)) return Place{box, d, distance};
    }
  return std::nullopt;
}

// The nearest of all places on a grid.
std::optional<Place> free_place(const LabelledPoint& point, const Box& frame, const std::vector<Box>& taken) {
  const Box at_zero = text_box(0, 0, point.label);
  std::optional<Place> best;
  for (double y = frame.top - at_zero.top; y + at_zero.bottom <= frame.bottom; y += 4)
    for (double x = frame.left; x + at_zero.right <= frame.right; x += 8) {
      const Box box = text_box(x, y, point.label);
      const double distance = std::hypot(std::clamp(point.x, box.left, box.right) - point.x,
                                         std::clamp(point.y, box.top, box.bottom) - point.y);
      if ((!best || distance < best->distance) && is_free(box, taken)) best = Place{box, {1, 0}, distance};
    }
  return best;
}

}  // namespace

double text_width(std::string_view text, double font_size) {
  double width = 0;  // in thousandths of the font's size, of DejaVu Sans, which is a wide one
  for (const char c : text) {
    if (std::string_view("ijl.,:;'|!() ").find(c) != std::string_view::npos)
      width += 400;
    else if (std::string_view("mwMW%@").find(c) != std::string_view::npos)
      width += 1000;
    else
      width += c >= 'A' && c <= 'Z' ? 780 : 640;
  }
  return width / 1000 * font_size;
}

Box text_box(double x, double y, std::string_view text, double font_size) {
  return {x, y - 0.85 * font_size, x + text_width(text, font_size), y + 0.3 * font_size};
}

std::vector<PlacedLabel> place_labels(const std::vector<LabelledPoint>& points, const Box& frame,
                                      std::vector<Box> taken, const std::vector<Box>& thin) {
  for (const LabelledPoint& p : points)
    taken.push_back({p.x - p.radius, p.y - p.radius, p.x + p.radius, p.y + p.radius});
  std::vector<PlacedLabel> placed;
  for (const LabelledPoint& p : points) {
    std::optional<Place> found = free_place_near(p, frame, taken, thin);
    if (!found) found = free_place_near(p, frame, taken, {});
    if (!found) found = free_place(p, frame, taken);
    const Place place = found.value_or(Place{box_at(p, directions[0], p.radius + 4), directions[0], 0});
    const Box& box = place.box;
    const double side = place.direction.x;
    taken.push_back(box);
    placed.push_back({.x = side > 0   ? box.left
                           : side < 0 ? box.right
                                      : (box.left + box.right) / 2,
                      .y = box.bottom - text_box(0, 0, "").bottom,
                      .anchor = side > 0   ? "start"
                                : side < 0 ? "end"
                                           : "middle",
                      .is_far = place.distance > p.radius + 12,
                      .to_x = std::clamp(p.x, box.left, box.right),
                      .to_y = std::clamp(p.y, box.top, box.bottom)});
  }
  return placed;
}

}  // namespace reprise::plot
