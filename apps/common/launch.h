// --ranks N: one program that starts itself N times on this machine, and watches.
#pragma once

#include <chrono>
#include <optional>

#include "reprise/apps/common/training_options.h"

namespace reprise::apps {

/// What ranks have once one of them has failed: to end by themselves, and then, asked by SIGTERM, to save.
struct TimesToEnd {
  std::chrono::milliseconds by_themselves{5000}, asked{10000};
};

/// Without --ranks, or in one of its ranks, nothing. Otherwise runs this program, with the same arguments, as so many ranks
/// and returns the exit code: that of the first that failed, 4 if that was killed, 3 if they were interrupted. A line that
/// rank k writes to standard error begins with "[k] ". Signals that ask to stop are passed on, and SIGUSR1. After the first failure the
/// others have `times` to end, and are then killed. Ranks get SIGTERM when this process dies, and RankWatch gives them as long to save.
std::optional<int> run_as_ranks(const char* name, const TrainingOptions& options, char** argv,
                                const TimesToEnd& times = {});

}  // namespace reprise::apps
