// The programs under test: they lie beside the program of the tests. A path that was compiled in would keep
// the presets from sharing these objects.
#pragma once

#include <filesystem>
#include <string>

namespace reprise::testing {

inline std::string beside_this_program(const char* name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

inline const char* gpt_program() {
  static const std::string path = beside_this_program("reprise-gpt");
  return path.c_str();
}

inline const char* vit_program() {
  static const std::string path = beside_this_program("reprise-vit");
  return path.c_str();
}

inline const char* convert_program() {
  static const std::string path = beside_this_program("reprise-convert");
  return path.c_str();
}

inline const char* jepa_program() {
  static const std::string path = beside_this_program("reprise-jepa");
  return path.c_str();
}

inline const char* scale_program() {
  static const std::string path = beside_this_program("reprise-scale");
  return path.c_str();
}

inline const char* recompute_program() {
  static const std::string path = beside_this_program("reprise-recompute");
  return path.c_str();
}

}  // namespace reprise::testing
