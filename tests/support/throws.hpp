// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <string>
#include <typeinfo>

namespace support {

/// Returns the message of the Error that call() throws. If it throws another type, even a derived
/// one, or nothing, the result says so.
template <class Error, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    if (typeid(error) != typeid(Error)) return std::string("another type: ") + error.what();
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another type: ") + error.what();
  }
  return "nothing was thrown";
}

}  // namespace support
