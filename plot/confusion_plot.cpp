#include "reprise/plot/confusion_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reprise/core/error.h"
#include "reprise/plot/svg.h"

namespace reprise::plot {
namespace {

constexpr double cell = 46, label = 130, line = 4;  // pixels: a cell, a name's column, below a text's middle
constexpr const char* nothing = "–";                // of no images there is no share

std::string percent(double share) { return std::isnan(share) ? nothing : number(100 * share) + " %"; }

double share_of(int64_t part, int64_t all) {
  return all > 0 ? double(part) / double(all) : std::numeric_limits<double>::quiet_NaN();
}

// The classes to show, in their order.
std::vector<size_t> shown_classes(const Confusion& confusion, size_t most) {
  std::vector<size_t> classes(confusion.names.size());
  std::iota(classes.begin(), classes.end(), size_t(0));
  if (classes.size() <= most) return classes;
  auto missed = [&](size_t c) { return confusion.images_of(c) - confusion.at(c, c); };
  auto worse = [&](size_t a, size_t b) {  // a class without images has no recall, and comes last
    double ra = confusion.recall(a), rb = confusion.recall(b);
    if (std::isnan(ra) || std::isnan(rb)) return !std::isnan(ra) && std::isnan(rb);
    return ra != rb ? ra < rb : missed(a) > missed(b);
  };
  std::stable_sort(classes.begin(), classes.end(), worse);
  classes.resize(most);
  std::sort(classes.begin(), classes.end());
  return classes;
}

std::string short_name(const std::string& name) {
  constexpr size_t most = 16;  // bytes
  if (name.size() <= most) return name;
  size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;  // not within a character
  return name.substr(0, end) + "…";
}

// One count; blue where it is right, red where not, stronger with its share of the row.
std::string draw_cell(const Confusion& confusion, size_t truth, size_t answer, double x, double y) {
  int64_t count = confusion.at(truth, answer);
  if (count == 0) return "";
  double share = share_of(count, confusion.images_of(truth));
  std::string title = fmt::format("{} taken for {}: {} of {}", confusion.names[truth],
                                  confusion.names[answer], count, confusion.images_of(truth));
  double strength = 0.08 + 0.85 * std::sqrt(share);  // a root, so that rare mistakes are seen
  std::string fill =
      fmt::format("fill=\"{}\" fill-opacity=\"{:.2f}\"", truth == answer ? "#3b78c9" : "#cf4a4a", strength);
  std::string text = fmt::format("text-anchor=\"middle\" pointer-events=\"none\" style=\"fill:{}\"",
                                 strength > 0.6 ? "#fff" : "#1f2328");
  return svg_rect(x, y, cell - 1, cell - 1, fill, title) +
         svg_text(x + cell / 2, y + cell / 2 + line, std::to_string(count), text);
}

}  // namespace

int64_t Confusion::images_of(size_t truth) const {
  auto row = counts.begin() + std::ptrdiff_t(truth * names.size());
  return std::accumulate(row, row + std::ptrdiff_t(names.size()), int64_t(0));
}

int64_t Confusion::answers_of(size_t answer) const {
  int64_t sum = 0;
  for (size_t truth = 0; truth < names.size(); ++truth) sum += at(truth, answer);
  return sum;
}

double Confusion::recall(size_t truth) const { return share_of(at(truth, truth), images_of(truth)); }
double Confusion::precision(size_t answer) const { return share_of(at(answer, answer), answers_of(answer)); }

std::string draw_confusion(const Confusion& confusion, size_t most_classes) {
  check(confusion.counts.size() == confusion.names.size() * confusion.names.size(),
        "draw_confusion: ", confusion.counts.size(), " counts for ", confusion.names.size(), " classes");
  std::vector<size_t> shown = shown_classes(confusion, most_classes);
  const double top = label, right = label + cell * double(shown.size());
  const double bottom = top + cell * double(shown.size());
  std::string body;
  for (size_t i = 0; i < shown.size(); ++i) {
    double x = label + cell * double(i), y = top + cell * double(i), middle = x + cell / 2;
    std::string name = short_name(confusion.names[shown[i]]);
    body += svg_text(label - 8, y + cell / 2 + line, name, "text-anchor=\"end\"");
    body += svg_text(middle, top - 8, name,
                     fmt::format("transform=\"rotate(-50 {} {})\"", number(middle), number(top - 8)));
    body += svg_text(right + 12, y + cell / 2 + line, percent(confusion.recall(shown[i])));
    body += svg_text(middle, bottom + 20, percent(confusion.precision(shown[i])), "text-anchor=\"middle\"");
    for (size_t j = 0; j < shown.size(); ++j)
      body += draw_cell(confusion, shown[i], shown[j], label + cell * double(j), y);
  }
  body += svg_text(right + 12, top - 8, "recall", "font-weight=\"600\"");
  body += svg_text(label - 8, bottom + 20, "precision", "text-anchor=\"end\" font-weight=\"600\"");
  return svg(right + 90, bottom + 36, body, picture_font);
}

}  // namespace reprise::plot
