// reprise-convert: exit code 0 on success, 2 on bad input (what and where), 1 on a defect of the program.
#include "reprise/apps/common/program.h"
#include "reprise/apps/convert/options.h"

int main(int argc, char** argv) {
  using namespace reprise::apps::convert;
  return reprise::apps::run_program("reprise-convert", argc, argv,
                                    [&] { return run_convert(parse_command_line(argc, argv)); });
}
