// What lies in a folder. std::filesystem's iterators end the program where there is no memory (libstdc++
// reads entries in a noexcept function), and those that take an error code are easily left half read: these
// say so.
#pragma once

#include <string>
#include <vector>

namespace reprise::io {

/// Whether something is at `path`, at the end of its links. Error if that cannot be known: a folder or disk
/// that does not answer has not said no.
bool exists(const std::string& path);
/// The same, of a link itself, wherever it leads.
bool exists_or_links(const std::string& path);

/// The names in `folder` but "." and "..", in the system's order. Error if it cannot be read to its end.
std::vector<std::string> names_in(const std::string& folder);

/// The regular files in `folder` and in the folders below it, and links to such files; not below links to
/// folders, nor in other file systems that are mounted there (/proc in /). Error if one of the folders cannot
/// be read.
std::vector<std::string> files_below(const std::string& folder);

/// Removes `folder` and the files in it. Error if one cannot be removed; a folder inside is not.
void remove_flat_folder(const std::string& folder);

}  // namespace reprise::io
