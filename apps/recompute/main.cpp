// reprise-recompute: exit code 0 on success, 2 on bad input (one line that says what and where), 1 when
// `verify` finds a difference, or on a defect of the program.
#include "reprise/apps/common/program.h"
#include "reprise/apps/recompute/options.h"

int main(int argc, char** argv) {
  using namespace reprise::apps::recompute;
  return reprise::apps::run_program("reprise-recompute", argc, argv, [&] {
    Command command = parse_command_line(argc, argv);
    switch (command.kind) {
      case Command::Kind::compare:
        return run_compare(command.compare);
      case Command::Kind::max_batch:
        return run_max_batch(command.max_batch);
      case Command::Kind::profile:
        return run_profile(command.profile);
      case Command::Kind::plan:
        return run_plan(command.plan);
      case Command::Kind::verify:
        break;
    }
    return run_verify(command.verify);
  });
}
