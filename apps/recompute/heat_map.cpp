// Tables of coloured cells.
#include "reprise/apps/recompute/heat_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>

#include "reprise/apps/recompute/measure.h"
#include "reprise/core/bytes.h"
#include "reprise/plot/svg.h"

namespace reprise::apps::recompute {
namespace {

using Cells = std::map<std::pair<std::string, std::string>, double>;  // by layer and operation

// In the order in which they ran, those outside all layers last.
std::vector<std::string> layers_of(const nn::StepProfile& step) {
  std::vector<std::string> layers;
  for (const nn::StepSlice& slice : step.slices)
    if (!slice.layer.empty() && std::find(layers.begin(), layers.end(), slice.layer) == layers.end())
      layers.push_back(slice.layer);
  layers.push_back("");
  return layers;
}

std::vector<std::string> columns_of(const Cells& cells, const std::vector<nn::StepSlice>& slices) {
  std::vector<std::string> columns;
  for (const nn::StepSlice& slice : slices) {
    bool any = false;
    for (const auto& [key, value] : cells) any |= key.second == slice.name && value > 0;
    if (any && std::find(columns.begin(), columns.end(), slice.name) == columns.end())
      columns.push_back(slice.name);
  }
  return columns;
}

std::string cell(double value, double largest, const std::string& text) {
  if (value <= 0) return "<td></td>";
  double strength = largest > 0 ? value / largest : 0;
  return fmt::format("<td style=\"background:rgba(59,120,201,{:.2f}){}\">{}</td>", 0.06 + 0.84 * strength,
                     strength > 0.55 ? ";color:#fff" : "", text);
}

// The regions of these layers: a region that plays several has its numbers at the first.
const reprise::recompute::RegionStats* region_of(const nn::StepProfile& step, const std::string& layer) {
  for (const auto& region : step.regions)
    if (!layer.empty() && (region.name == layer || region.name.starts_with(layer + " .. "))) return &region;
  return nullptr;
}

// An operation's name may be broken at its underscores.
std::string breakable(const std::string& name) {
  std::string out;
  for (const char c : plot::escaped(name)) out += c == '_' ? std::string("_<wbr>") : std::string(1, c);
  return out;
}

std::string header(const std::vector<std::string>& columns, const std::vector<std::string>& more) {
  std::string out = "<tr><th>layer</th>";
  for (const std::string& name : columns) out += "<th>" + breakable(name) + "</th>";
  for (const std::string& name : more) out += "<th>" + plot::escaped(name) + "</th>";
  return out + "</tr>\n";
}

std::string label_of(const std::string& layer) { return layer.empty() ? "embedding, head, loss" : layer; }

double largest_in(const Cells& cells) {
  double largest = 0;
  for (const auto& [key, value] : cells) largest = std::max(largest, value);
  return largest;
}

double sum_of_layer(const Cells& cells, const std::string& layer) {
  double sum = 0;
  for (const auto& [key, value] : cells) sum += key.first == layer ? value : 0;
  return sum;
}

std::string table(const Cells& cells, const nn::StepProfile& plain, double unit,
                  const std::vector<std::string>& more,
                  const std::function<std::string(const std::string&)>& more_cells) {
  std::vector<std::string> columns = columns_of(cells, plain.slices);
  double largest = largest_in(cells);
  std::string out = "<table>\n" + header(columns, more);
  for (const std::string& layer : layers_of(plain)) {
    out += "<tr><td>" + plot::escaped(label_of(layer)) + "</td>";
    for (const std::string& column : columns) {
      auto found = cells.find({layer, column});
      double value = found == cells.end() ? 0 : found->second;
      out += cell(value, largest, two_digits(value / unit));
    }
    out += "<td>" + in_cell(sum_of_layer(cells, layer) / unit) + "</td>" + more_cells(layer) + "</tr>\n";
  }
  return out + "</table>\n";
}

constexpr const char* script = R"(<script>
for (const button of document.querySelectorAll('button[data-show]')) {
  button.addEventListener('click', () => {
    for (const other of document.querySelectorAll('button[data-show]')) {
      other.classList.toggle('on', other === button);
      document.getElementById(other.dataset.show).hidden = other !== button;
    }
  });
}
</script>
)";

}  // namespace

std::string heat_map_section(const std::vector<nn::SavedCell>& saved, const nn::StepProfile& plain,
                             const nn::StepProfile& with) {
  constexpr double ms = 1e-3;
  Cells bytes, seconds;
  for (const nn::SavedCell& one : saved) bytes[{one.layer, one.op}] += double(one.bytes);
  std::map<std::string, double> forward, backward;
  for (const nn::StepSlice& slice : plain.slices) {
    if (slice.phase == nn::StepPhase::update) continue;
    seconds[{slice.layer, slice.name}] += slice.end - slice.begin;
    (slice.phase == nn::StepPhase::forward ? forward : backward)[slice.layer] += slice.end - slice.begin;
  }
  auto region_bytes = [&](const std::string& layer) {
    const auto* region = region_of(with, layer);
    if (!region) return std::string("<td></td><td></td>");
    return "<td>" + in_cell(mib(region->bytes_kept)) + "</td><td>" + in_cell(mib(region->bytes_recomputed)) +
           "</td>";
  };
  auto region_seconds = [&](const std::string& layer) {
    const auto* region = region_of(with, layer);
    return "<td>" + in_cell(forward[layer] / ms) + "</td><td>" + in_cell(backward[layer] / ms) + "</td><td>" +
           (region ? in_cell(region->replay_seconds / ms) : "") + "</td>";
  };
  return "<section><h2>Layers and operations</h2>\n<p>Without recompute: what backward keeps, and time "
         "forward "
         "and backward. On the right: the regions of " +
         plot::escaped(with.strategy) +
         ": of what backward keeps, what their policy keeps too (0: nothing), and what is recomputed. "
         "<button class=\"on\" data-show=\"saved\">MiB saved</button> <button "
         "data-show=\"seconds\">ms</button></p>\n<div id=\"saved\">" +
         table(bytes, plain, 0x1p20, {"all", "kept", "recomputed"}, region_bytes) +
         "</div>\n<div id=\"seconds\" hidden>" +
         table(seconds, plain, ms, {"all", "forward", "backward", "replay"}, region_seconds) + "</div>\n" +
         script + "</section>\n";
}

}  // namespace reprise::apps::recompute
