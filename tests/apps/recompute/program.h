// Runs the built reprise-recompute on a tiny model.
#pragma once

#include "reprise/tests/apps/gpt/program.h"

namespace reprise::testing {

/// The arguments of a command on a tiny model, on one thread.
inline Arguments recompute_arguments(const std::string& command, const Arguments& more = {}) {
  Arguments all = {command, "--model", "tiny", "--threads", "1"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

struct ProgramResult {
  int code;
  std::string out, err;
};
inline ProgramResult run_recompute(const Arguments& arguments) {
  Program program(arguments, "", recompute_program());
  int code = program.wait();
  return {code, program.out(), program.err()};
}

}  // namespace reprise::testing
