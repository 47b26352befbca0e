// Runs the built reprise-jepa as its users do, on tiny images.
#pragma once

#include "reprise/tests/apps/vit/program.h"

namespace reprise::testing {

/// `train` of a tiny model on a grid of 4 x 4 patches for `steps` steps into `out`, on one thread; what `more` gives
/// replaces the defaults.
inline Arguments jepa_arguments(const std::string& data, const std::string& out, int steps,
                                const Arguments& more = {}) {
  const std::vector<std::pair<std::string, std::string>> defaults = {
      {"--predictor-width", "8"}, {"--predictor-layers", "1"}, {"--predictor-heads", "2"}};
  Arguments all = vit_arguments(data, out, steps, more);
  for (const auto& [option, value] : defaults)
    if (std::find(more.begin(), more.end(), option) == more.end()) all.insert(all.end(), {option, value});
  return all;
}

inline Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The same by --loss lejepa.
inline Arguments lejepa_arguments(const std::string& data, const std::string& out, int steps,
                                  const Arguments& more = {}) {
  return with(vit_arguments(data, out, steps, more),
              {"--loss", "lejepa", "--projector-width", "16", "--features", "4", "--directions", "16"});
}

/// What metrics.jsonl has under a name, step by step.
inline std::vector<double> recorded(const std::string& run, const std::string& name) {
  std::vector<double> values;
  for (const io::RunRecord& record : io::read_run_log(run + "/metrics.jsonl"))
    for (const auto& [key, value] : record.metrics)
      if (key == name) values.push_back(value);
  return values;
}

inline std::string run_jepa(const Arguments& arguments, int code = 0) {
  Program program(arguments, "", jepa_program());
  EXPECT_EQ(program.wait(), code) << program.err();
  return program.out();
}

/// Expects exit code 2 and a message on standard error that holds each of `parts`.
inline void expect_jepa_refused(const Arguments& arguments, const std::vector<std::string>& parts) {
  Program program(arguments, "", jepa_program());
  EXPECT_EQ(program.wait(), 2) << program.out() << program.err();
  const std::string line = program.err();
  EXPECT_TRUE(line.starts_with("reprise-jepa: ")) << line;
  for (const std::string& part : parts)
    EXPECT_NE(line.find(part), std::string::npos) << line << "lacks: " << part;
}

}  // namespace reprise::testing
