// Which file each descriptor stands for.
#pragma once

#include <climits>
#include <cstddef>

namespace fault {

/// An absolute path, kept without allocating.
struct Path {
  char text[PATH_MAX];
  /// `path` as seen from the folder that `descriptor` is (or AT_FDCWD).
  Path(int descriptor, const char* path);
};

void remember(int descriptor, const char* path);
void forget(int descriptor);
/// "" if the descriptor is not one of a watched file.
const char* path_of(int descriptor);

}  // namespace fault
