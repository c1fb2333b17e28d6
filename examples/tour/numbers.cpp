// SPDX-License-Identifier: MIT
#include "numbers.hpp"

#include <cmath>
#include <iomanip>

namespace tour {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  const std::string text = out.str();
  const bool minus_zero = text[0] == '-' && text.find_first_of("123456789") == std::string::npos;
  return minus_zero ? text.substr(1) : text;
}

std::string scientific(double value) {
  if (value == 0 || !std::isfinite(value)) return cat(value);
  std::ostringstream out;
  out << std::scientific << std::setprecision(1) << value;
  const std::string text = out.str();
  const auto e = text.find('e');
  return cat(text.substr(0, e), 'e', std::stoi(text.substr(e + 1)));
}

std::string compact(double value) {
  const double size = std::abs(value);
  if (size < 0.01 || size >= 1000) return scientific(value);
  return fixed(value, size < 0.1 ? 3 : size < 1 ? 2 : size < 10 ? 1 : 0);
}

std::string grouped(posenc::Index value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string percent(double share, int digits) { return fixed(100 * share, digits) + " %"; }

}  // namespace tour
