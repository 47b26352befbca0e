// Where in a kernel's source an operation stands. Operations that the emulator may have to report take a Site
// as a defaulted last argument, which the compiler fills in; on a GPU nobody reads it and it costs nothing.
#pragma once

namespace reprise::simt {

struct Site {
  const char* file;
  int line;

  /// The place of the call, as the default of a function's argument: `void f(Site site = Site::here());`
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace reprise::simt
