// A build without utf8proc.
#include "reprise/core/error.h"
#include "reprise/io/text/nfc.h"

namespace reprise::io {

bool has_nfc() { return false; }

std::string to_nfc(std::string_view) {
  fail("nfc: this build has no utf8proc, which normalises text: install libutf8proc-dev and configure again");
}

}  // namespace reprise::io
