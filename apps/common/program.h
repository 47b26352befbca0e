// What the main function of every program does around its work.
#pragma once

#include <exception>
#include <functional>

#include "reprise/nn/memory/memory_advice.h"

namespace reprise::apps {

using nn::unknown_fit;

/// Opens /dev/null on those of the descriptors 0 to 2 that are closed, the wrong way round, so that using
/// them fails: no file of ours can become standard output, and what is written there cannot get into it. Call
/// it before anything opens a file.
void open_standard_streams();

/// Runs `body` and returns its exit code; what it throws becomes a line on standard error, "NAME: what is
/// wrong", and 2 where the caller can react (bad input, a file, memory, the system), 4 or 5 where another rank
/// failed (DistributedError::exit_code), 1 for a defect of the program. Under torchrun the line also goes to TORCHELASTIC_ERROR_FILE. A lack of memory in a function that may not throw is told in the same way, with 2. Where it is not known
/// what would have fitted, that is said too. Line breaks in
/// `argv` are shown as \n where a message repeats them.
int run_program(const char* name, int argc, char** argv, const std::function<int()>& body);

/// The same of one exception, on any thread of that program.
int tell_end(std::exception_ptr thrown);

}  // namespace reprise::apps
