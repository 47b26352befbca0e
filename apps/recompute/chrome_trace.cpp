// Writing trace events.
#include "reprise/apps/recompute/chrome_trace.h"

#include "reprise/io/json.h"
#include "reprise/plot/svg.h"

namespace reprise::apps::recompute {
namespace {

std::string microseconds(double seconds) { return plot::number(1e6 * seconds, 3); }

std::string process_name(size_t process, const std::string& strategy) {
  return "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" + std::to_string(process) +
         ",\"args\":{\"name\":" + io::json_quote("recompute " + strategy) + "}},\n";
}

std::string slice_event(size_t process, const nn::StepSlice& slice, const std::string& name) {
  return "{\"ph\":\"X\",\"pid\":" + std::to_string(process) + ",\"tid\":1,\"name\":" + io::json_quote(name) +
         ",\"cat\":\"" + name_of(slice.phase) + "\",\"ts\":" + microseconds(slice.begin) +
         ",\"dur\":" + microseconds(slice.end - slice.begin) +
         ",\"args\":{\"layer\":" + io::json_quote(slice.layer) + "}},\n";
}

std::string memory_event(size_t process, const nn::MemoryPoint& point) {
  std::string values;
  for (int i = 0; i < memory_category_count; ++i)
    values += (i ? ",\"" : "\"") + std::string(name_of(MemoryCategory(i))) +
              "\":" + std::to_string(point.by_category[size_t(i)]);
  return "{\"ph\":\"C\",\"pid\":" + std::to_string(process) +
         ",\"name\":\"memory\",\"ts\":" + microseconds(point.seconds) + ",\"args\":{" + values + "}},\n";
}

}  // namespace

std::string chrome_trace(const std::vector<nn::StepProfile>& steps) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (size_t i = 0; i < steps.size(); ++i) {
    const nn::StepProfile& step = steps[i];
    out += process_name(i + 1, step.strategy);
    for (const nn::StepSlice& layer : nn::by_layer(step.slices))
      if (layer.phase != nn::StepPhase::replay)
        out += slice_event(i + 1, layer, std::string(name_of(layer.phase)) + " " + layer.layer);
    for (const nn::StepSlice& slice : step.slices)
      if (slice.phase != nn::StepPhase::update)
        out += slice_event(i + 1, slice, slice.name == "region" ? "replay " + slice.layer : slice.name);
    for (const nn::MemoryPoint& point : step.timeline.points()) out += memory_event(i + 1, point);
  }
  out.resize(out.size() - 2);  // the last comma
  return out + "\n]}\n";
}

}  // namespace reprise::apps::recompute
