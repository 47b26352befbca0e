// Errors that name the option they come from.
#pragma once

#include <new>
#include <string>

#include "reprise/core/memory.h"

namespace reprise::train {

namespace detail {
/// Throws `message`, as OutOfMemory where `error` is that.
[[noreturn]] inline void throw_as(const Error& error, const std::string& message) {
  if (dynamic_cast<const OutOfMemory*>(&error)) throw OutOfMemory(message);
  fail(message);
}
}  // namespace detail

/// What `work` returns. An Error of it, or a lack of memory, begins with the option: "--data: open: t.txt: No
/// such file", unless it names one already.
template <class Work>
auto under_option(const std::string& option, Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    std::string message = error.what();
    if (message.starts_with("--")) throw;
    detail::throw_as(error, option + ": " + message);
  } catch (const std::bad_alloc&) { throw OutOfMemory(option + ": out of memory"); }
}

/// What `work` returns; an Error of it begins with its subject: the file that holds what `work` uses, the
/// step it belongs to.
template <class Work>
auto about(const std::string& subject, Work&& work) {
  try {
    return work();
  } catch (const Error& error) { detail::throw_as(error, subject + ": " + error.what()); }
}

}  // namespace reprise::train
