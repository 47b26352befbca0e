// A table from descriptors to paths.
#include "descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace fault {
namespace {

constexpr int most = 256;
char table[most][512];

}  // namespace

Path::Path(int descriptor, const char* path) {
  char base[PATH_MAX] = "";
  if (path[0] != '/') {
    if (descriptor != AT_FDCWD) {
      std::snprintf(base, sizeof base, "%s", path_of(descriptor));
    } else if (!::getcwd(base, sizeof base)) {
      base[0] = 0;
    }
  }
  while (std::strncmp(path, "./", 2) == 0) path += 2;
  int length = std::snprintf(text, sizeof text, path[0] == '/' ? "%s%s" : "%s/%s", base, path);
  if (length >= int(sizeof text)) text[0] = 0;  // longer than any file's: not watched
  if (length > 2 && std::strcmp(text + length - 2, "/.") == 0) text[length - 2] = 0;
}

void remember(int descriptor, const char* path) {
  if (descriptor >= 0 && descriptor < most) std::snprintf(table[descriptor], sizeof table[0], "%s", path);
}

void forget(int descriptor) {
  if (descriptor >= 0 && descriptor < most) table[descriptor][0] = 0;
}

const char* path_of(int descriptor) { return descriptor >= 0 && descriptor < most ? table[descriptor] : ""; }

}  // namespace fault
