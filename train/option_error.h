// Errors that name the option they come from.
#pragma once

#include <new>
#include <string>

#include "reprise/core/error.h"

namespace reprise::train {

/// What `work` returns. An Error of it, or a lack of memory, begins with the option: "--data: open: t.txt: No
/// such file", unless it names one already.
template <class Work>
auto under_option(const std::string& option, Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    std::string message = error.what();
    if (message.starts_with("--")) throw;
    fail(option, ": ", message);
  } catch (const std::bad_alloc&) { fail(option, ": out of memory"); }
}

/// What `work` returns; an Error of it begins with its subject: the file that holds what `work` uses, the
/// step it belongs to.
template <class Work>
auto about(const std::string& subject, Work&& work) {
  try {
    return work();
  } catch (const Error& error) { fail(subject, ": ", error.what()); }
}

}  // namespace reprise::train
