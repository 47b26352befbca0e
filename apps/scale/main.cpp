// reprise-scale: exit code 0 on success, 2 on bad input (what and where), 1 on a defect of the program.
#include "reprise/apps/common/program.h"
#include "reprise/apps/scale/options.h"

int main(int argc, char** argv) {
  using namespace reprise::apps::scale;
  return reprise::apps::run_program("reprise-scale", argc, argv,
                                    [&] { return run_scale(parse_command_line(argc, argv)); });
}
