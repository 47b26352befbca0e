// reprise-vit: exit code 0 on success, 2 on bad input (one line that says what and where), 3 when
// interrupted, 4 or 5 when another rank failed, 1 on a defect of the program.
#include "reprise/apps/common/config_file.h"
#include "reprise/apps/common/launch.h"
#include "reprise/apps/common/program.h"
#include "reprise/apps/vit/options.h"
#include "reprise/core/error.h"
#include "reprise/distributed/errors.h"

int main(int argc, char** argv) {
  using namespace reprise::apps::vit;
  return reprise::apps::run_program("reprise-vit", argc, argv, [&] {
    Command command = parse_command_line(argc, argv);
    switch (command.kind) {
      case Command::Kind::eval:
        return run_eval(command.eval);
      case Command::Kind::predict:
        return run_predict(command.predict);
      case Command::Kind::check:
        return run_check(command.check);
      case Command::Kind::pack:
        return run_pack(command.pack);
      case Command::Kind::show:
        return run_show(command.show);
      case Command::Kind::train:
        break;
    }
    if (std::optional<int> code = reprise::apps::run_as_ranks("reprise-vit", command.train, argv))
      return *code;
    try {
      return run_train(command.train);
    } catch (const reprise::distributed::DistributedError&) { throw; } catch (const reprise::Error& error) {
      reprise::fail(reprise::apps::with_places(error.what(), command.places));
    }
  });
}
