// reprise-recompute: exit code 0 on success, 2 on bad input (one line that says what and where), 1 when
// `verify` finds a difference, or on a defect of the program.
#include <cstdio>
#include <exception>

#include "reprise/apps/recompute/options.h"
#include "reprise/core/error.h"

int main(int argc, char** argv) {
  using namespace reprise::apps::recompute;
  try {
    Command command = parse_command_line(argc, argv);
    switch (command.kind) {
      case Command::Kind::verify:
        return run_verify(command.verify);
      case Command::Kind::compare:
        return run_compare(command.compare);
      case Command::Kind::max_batch:
        return run_max_batch(command.max_batch);
      case Command::Kind::profile:
        return run_profile(command.profile);
      case Command::Kind::plan:
        return run_plan(command.plan);
    }
  } catch (const reprise::Error& error) {
    std::fprintf(stderr, "reprise-recompute: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise-recompute: internal error: %s\n", error.what());
    return 1;
  }
}
