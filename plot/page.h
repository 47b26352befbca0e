// What the HTML reports have in common: one file that needs nothing else and reaches for nothing.
#pragma once

#include <string>

namespace reprise::plot {

/// A page with a heading, a line below it, and `body`, which is HTML.
std::string page(const std::string& title, const std::string& subtitle, const std::string& body);

}  // namespace reprise::plot
