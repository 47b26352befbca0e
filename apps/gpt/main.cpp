// reprise-gpt: exit code 0 on success, 2 on bad input (one line that says what and where), 3 when
// interrupted, 4 or 5 when another rank failed, 1 on a defect of the program.
#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/launch.h"
#include "reprise/apps/common/program.h"
#include "reprise/apps/gpt/options.h"
#include "reprise/core/error.h"
#include "reprise/distributed/errors.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/output.h"

int main(int argc, char** argv) {
  using namespace reprise::apps::gpt;
  return reprise::apps::run_program("reprise-gpt", argc, argv, [&] {
    Command command = parse_command_line(argc, argv);
    switch (command.kind) {
      case Command::Kind::sample:
        return run_sample(command.sample);
      case Command::Kind::eval:
        return run_eval(command.eval);
      case Command::Kind::flight:
        return run_flight(command.flight);
      case Command::Kind::consolidate:
        reprise::train::consolidate_checkpoint(command.consolidate.run, command.consolidate.out);
        reprise::train::report("Written: {}\n", command.consolidate.out);
        return 0;
      case Command::Kind::train:
        break;
    }
    if (std::optional<int> code = reprise::apps::run_as_ranks("reprise-gpt", command.train, argv))
      return *code;
    try {
      return run_train(command.train);
    } catch (const reprise::distributed::DistributedError&) { throw; } catch (const reprise::Error& error) {
      reprise::fail(reprise::apps::with_places(error.what(), command.places));
    }
  });
}
