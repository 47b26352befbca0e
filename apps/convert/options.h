// The options of `reprise-convert`.
#pragma once

#include <cstdint>
#include <string>

namespace reprise::apps::convert {

struct Command {
  std::string file;  ///< weights, a folder of them, a run or a checkpoint
  std::string to;    ///< timm, hf, llm.c or reprise
  std::string out;
  std::string part;   ///< of a run of reprise-jepa: encoder or target_encoder; empty: FILE is one network
  int64_t heads = 0;  ///< 0: as the file or its config.json says
};

/// Parses the command line. Prints help and exits the process with 0 where asked; throws Error on bad options.
Command parse_command_line(int argc, char** argv);

int run_convert(const Command& command);

}  // namespace reprise::apps::convert
