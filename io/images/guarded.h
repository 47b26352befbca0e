// Calls of the C libraries whose errors are longjmps: `guarded` is the one function they return to.
#pragma once

#include <csetjmp>

namespace reprise::io {

/// Runs `calls(codec)`: whether it came to its end, which it does unless something in it jumps to `jump`. Neither `calls`
/// nor what it calls may own anything with a destructor, or throw.
template <class Codec>
[[gnu::noinline]] bool guarded(std::jmp_buf& jump, Codec& codec, void (*calls)(Codec&)) {
  if (setjmp(jump) != 0) return false;
  calls(codec);
  return true;
}

}  // namespace reprise::io
