// reprise-jepa: exit code 0 on success, 2 on bad input (one line that says what and where), 3 when
// interrupted, 1 on a defect of the program.
#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/program.h"
#include "reprise/apps/jepa/options.h"
#include "reprise/core/error.h"

int main(int argc, char** argv) {
  using namespace reprise::apps::jepa;
  return reprise::apps::run_program("reprise-jepa", argc, argv, [&] {
    Command command = parse_command_line(argc, argv);
    if (command.kind == Command::Kind::probe) return run_probe(command.probe);
    try {
      return run_train(command.train);
    } catch (const reprise::Error& error) {
      reprise::fail(reprise::apps::with_places(error.what(), command.places));
    }
  });
}
