// Errors that tests expect: their messages, or parts of them.
#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <functional>
#include <string>
#include <vector>

#include "reprise/core/error.h"

namespace reprise::testing {

/// The message of the Error that `body` throws; a failed expectation if it throws none.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) { return error.what(); }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

/// Expects `body` to throw Error, with each of `parts` in its message.
inline void expect_error(const std::function<void()>& body, const std::vector<std::string>& parts) {
  const std::string message = error_of(body);
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
}

template <class Body, class... Parts>
requires(std::convertible_to<const Parts&, std::string>&&...) void expect_error(Body&& body,
                                                                                const Parts&... parts) {
  expect_error(std::function<void()>(body), std::vector<std::string>{std::string(parts)...});
}

}  // namespace reprise::testing
