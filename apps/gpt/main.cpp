// reprise-gpt: exit code 0 on success, 2 on bad input (one line that says what and where), 3 when
// interrupted, 1 on a defect of the program.
#include <cstdio>
#include <exception>

#include "reprise/apps/gpt/options.h"

int main(int argc, char** argv) {
  using namespace reprise::apps::gpt;
  try {
    Command command = parse_command_line(argc, argv);
    switch (command.kind) {
      case Command::Kind::train:
        return run_train(command.train);
      case Command::Kind::sample:
        return run_sample(command.sample);
      case Command::Kind::eval:
        return run_eval(command.eval);
    }
  } catch (const reprise::Error& error) {
    std::fprintf(stderr, "reprise-gpt: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise-gpt: internal error: %s\n", error.what());
    return 1;
  }
}
