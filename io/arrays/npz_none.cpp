// A build without libzip.
#include "reprise/core/error.h"
#include "reprise/io/arrays/npz.h"

namespace reprise::io {
namespace {

[[noreturn]] void refuse(const std::string& path) {
  fail("npz: ", path,
       ": this build has no libzip, which opens archives: install libzip-dev and configure again");
}

}  // namespace

bool has_npz() { return false; }
NamedArrays read_npz(const std::string& path) { refuse(path); }
void write_npz(const std::string& path, const NamedArrays&) { refuse(path); }

}  // namespace reprise::io
