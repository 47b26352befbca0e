// GPT-2's printable bytes.
#include "reprise/io/text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

#include "reprise/io/utf8.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

TEST(ByteAlphabet, WritesTheKnownCharacters) {
  EXPECT_EQ(bytes_to_alphabet(" a\n!~"), "\u0120a\u010a!~");  // as in the published vocab.json
  EXPECT_EQ(bytes_to_alphabet("\x7f\xa0\xad\xff"), "\u0121\u0142\u0143\u00ff");
}

TEST(ByteAlphabet, IsABijection) {
  std::set<std::string> characters;
  for (int byte = 0; byte < 256; ++byte) {
    std::string bytes(1, char(byte)), text = bytes_to_alphabet(bytes);
    characters.insert(text);
    EXPECT_EQ(alphabet_to_bytes(text), bytes) << byte;
  }
  EXPECT_EQ(characters.size(), 256u);
}

TEST(ByteAlphabet, RefusesOtherCharacters) {
  testing::expect_error([] { alphabet_to_bytes("a b"); }, "U+0020");
  testing::expect_error([] { alphabet_to_bytes("\u0144"); }, "U+0144");
  testing::expect_error([] { alphabet_to_bytes("\xff"); }, "not UTF-8");
}

}  // namespace
}  // namespace reprise::io
