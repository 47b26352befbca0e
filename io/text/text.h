// A text corpus from a file, a folder or standard input.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/io/text/text_origin.h"

namespace reprise::io {

/// The text at `source`: a file; a folder, of which all regular *.txt files are taken (all regular files if
/// there is no
/// *.txt), recursively, sorted by path, with a line break between two files; or "-", standard input. Links to
/// folders are not followed. Error if it is missing, empty or not UTF-8; the message names the file and the
/// byte. `parts`, if given, gets the files that the text is made of, for TextOrigin.
std::string read_text(const std::string& source, std::vector<TextPart>* parts = nullptr);

/// Cuts valid UTF-8 at `fraction` of its characters, as nanoGPT does: (train, validation). Error unless 0 <
/// fraction < 1 and both parts hold a character.
std::pair<std::string_view, std::string_view> split_text(std::string_view text, double fraction);

}  // namespace reprise::io
