// What the shim does to a program, as the FAULT_ variables of the environment say; docs/attacks.md lists
// them.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace fault {

/// What becomes of a call: it goes on, goes on with half of its bytes, fails with errno set, or says it
/// worked.
enum class Verdict { proceed, shorten, fail, pretend };

/// Counts a call on `path` if the plan watches it, and decides; may end the program or raise a signal.
Verdict decide(const char* operation, const char* path);

/// True if `path` lies in the watched folder.
bool watched(const char* path);

/// True if FAULT_PLANT names this bug, which the shim plants to show that the attack finds it.
bool planted(const char* bug);

/// Ends the program as `kill -9` does.
[[noreturn]] void kill_now();

/// Appends one operation to FAULT_LOG, if there is one. `number` is an offset, a length or flags.
void log_operation(const char* operation, int descriptor, long long number, const char* path = "",
                   const char* to = "", const void* data = nullptr, size_t bytes = 0);

/// The function of this name that the shim hides.
void* hidden_function(const char* name);

template <class Function>
Function hidden(const char* name, Function) {
  return reinterpret_cast<Function>(hidden_function(name));
}

}  // namespace fault
