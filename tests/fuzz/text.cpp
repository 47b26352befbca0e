// Text: UTF-8, the form that any bytes have in it, quoting, and GPT-2's words.
#include "reprise/io/text/text.h"

#include "reprise/core/quote.h"
#include "reprise/io/text/word_splitter.h"
#include "reprise/io/utf8.h"
#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

namespace {

bool is_utf8(std::string_view text) { return io::find_invalid_utf8(text) == text.size(); }

bool is_harmless(std::string_view text) {
  for (unsigned char c : text)
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) return false;
  return is_utf8(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string_view text = fuzz::text_of(data, bytes);
  std::string path = fuzz::write("text.txt", text);
  bool read = fuzz::reads(bytes, [&] { io::read_text(path); });
  fuzz::require(read == (is_utf8(text) && !text.empty()), "text is refused, or taken, against its validity");
  std::string form = io::bytes_as_utf8(text);
  fuzz::require(is_utf8(form) && io::bytes_from_utf8(form) == text,
                "bytes do not come back from their UTF-8 form");
  fuzz::require(is_harmless(printable(text)), "a terminal would obey");
  std::string quotation = quote(text);
  fuzz::require(is_harmless(quotation) && quotation.find('\n') == std::string::npos && quotation.size() < 200,
                "a quotation is not one short line");
  if (!is_utf8(text)) return 0;
  static const io::WordSplitter splitter;
  std::string words;
  splitter.split(text, [&](std::string_view word) { words += word; });
  fuzz::require(words == text, "words do not make the text");
  for (size_t position = 0; position < text.size();) {
    size_t start = position;
    std::string character;
    io::append_utf8(character, io::next_code_point(text, position));
    fuzz::require(character == text.substr(start, position - start), "a character changed");
  }
  return 0;
}
