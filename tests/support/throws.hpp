// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <string>
#include <typeinfo>

namespace support {

/// The message of the Error that call() throws; says so where it throws another type, even a
/// derived one, or nothing.
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
