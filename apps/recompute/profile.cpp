// reprise-recompute profile: one step without recompute and one with it, as a page and as a trace.

#include "reprise/apps/recompute/chrome_trace.h"
#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/heat_map.h"
#include "reprise/apps/recompute/options.h"
#include "reprise/apps/recompute/strategies.h"
#include "reprise/apps/recompute/timeline_plot.h"
#include "reprise/core/bytes.h"
#include "reprise/io/atomic_file.h"
#include "reprise/plot/page.h"
#include "reprise/train/made_folders.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"

namespace reprise::apps::recompute {
namespace {

void print_regions(const nn::StepProfile& step) {
  size_t longest = 14;
  for (const auto& region : step.regions) longest = std::max(longest, region.name.size());
  train::print("{:<{}}{:>8}{:>14}{:>14}{:>14}{:>12}\n", "region", longest + 2, "replays", "without", "kept",
               "recomputed", "replay");
  for (const auto& region : step.regions)
    train::print("{:<{}}{:>8}{:>14}{:>14}{:>14}{:>9.2f} ms\n", region.name, longest + 2, region.replays,
                 format_bytes(region.bytes_saved), format_bytes(region.bytes_kept),
                 format_bytes(region.bytes_recomputed), 1e3 * region.replay_seconds);
  train::print(
      "\nwithout: what backward would hold; kept: of it, what a policy holds; recomputed: made anew\n");
}

}  // namespace

int run_profile(const ProfileCommand& c) {
  std::unique_ptr<Workload> made = make_workload(c.workload);
  const Workload& workload = *made;
  train::MadeFolders out = train::under_option("--out", [&] { return train::MadeFolders(c.workload.out); });
  const std::string strategy = with_predictor(c.recompute, c.workload);
  check_strategy(strategy, workload);
  train::print("{}\n\n", workload.to_string());
  Trainee trainee(workload);
  const Batch batch = workload.batch(0, workload.rows);
  const nn::TrainingStepCase step_case = trainee.step_case(batch);
  trainee.set_recompute(prepared_for("none", workload));
  const std::vector<nn::SavedCell> saved = nn::saved_by_layer(step_case);
  trainee.step(0, batch);  // makes the optimizer's moments
  std::vector<nn::StepProfile> steps;
  for (const std::string& each : {std::string("none"), strategy}) {
    trainee.set_recompute(prepare(trainee, each, batch));
    steps.push_back(nn::profile_as_set(step_case, each));
  }
  print_regions(steps[1]);
  TimelineScale scale;
  for (const nn::StepProfile& step : steps) {
    scale.seconds = std::max(scale.seconds, step.seconds);
    scale.bytes = std::max(scale.bytes, double(step.timeline.peak()));
    train::print("\n{:<16} peak {}, of activations + recompute {}", step.strategy, format_bytes(step.peak),
                 format_bytes(step.timeline.peak_activations()));
  }
  std::string body =
      "<section><p>MiB that tensors asked for, over milliseconds; below, what ran. A peak is what blocks "
      "took, which is a "
      "little more.</p>\n" +
      category_legend() + "</section>\n";
  for (const nn::StepProfile& step : steps) body += timeline_section(step, scale);
  body += heat_map_section(saved, steps[0], steps[1]) + timeline_script();
  std::string html = c.workload.out + "/profile.html", trace = c.workload.out + "/profile.trace.json";
  io::write_file(html, plot::page("Memory over one training step", workload.to_string(), body));
  io::write_file(trace, chrome_trace(steps));
  train::print("\n\nwritten to {} (for a browser) and {} (for chrome://tracing or ui.perfetto.dev)\n", html,
               trace);
  return 0;
}

}  // namespace reprise::apps::recompute
