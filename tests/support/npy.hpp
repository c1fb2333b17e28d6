// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace support {

/// Tensor of an .npy file, in C order.
///
/// `<f2`, `<f4`, `<f8` fill `values`; `<i8` and `|b1` (as 0 and 1) fill `integers`.
struct Npy {
  std::string dtype;  ///< descr of the header
  std::vector<std::int64_t> shape;
  std::vector<double> values;
  std::vector<std::int64_t> integers;

  std::int64_t size() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
  }
};

namespace detail {

[[noreturn]] inline void npy_error(const std::string& path, const std::string& what) {
  throw std::runtime_error("npy: " + path + ": " + what);
}

inline double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const double fraction = static_cast<double>(bits & 0x3ff);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * std::ldexp(1024.0 + fraction, exponent - 25);
}

/// Returns the text after `'key':` in the header's dict, without leading spaces.
inline std::string npy_field(const std::string& header, const std::string& key,
                             const std::string& path) {
  const std::size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) npy_error(path, "the header has no '" + key + "'");
  const std::size_t value = header.find_first_not_of(' ', at + key.size() + 3);
  if (value == std::string::npos) npy_error(path, "the header ends after '" + key + "'");
  return header.substr(value);
}

/// Reads "(2, 3)", "(2,)" or "()".
inline std::vector<std::int64_t> npy_shape(const std::string& field, const std::string& path) {
  const std::size_t end = field.find(')');
  if (field.front() != '(' || end == std::string::npos) npy_error(path, "bad shape");
  std::vector<std::int64_t> shape;
  std::int64_t extent = -1;
  for (std::size_t i = 1; i <= end; ++i) {
    const char c = field[i];
    if (c >= '0' && c <= '9') {
      extent = 10 * (extent < 0 ? 0 : extent) + (c - '0');
      if (extent > std::int64_t{1} << 40) npy_error(path, "bad shape");
    } else if (c == ',' || c == ')') {
      if (extent >= 0) shape.push_back(extent);
      extent = -1;
    } else if (c != ' ') {
      npy_error(path, "bad shape");
    }
  }
  return shape;
}

template <class T>
T npy_element(const std::string& bytes, std::size_t index) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace detail

/// Reads a version 1.0 .npy file; throws std::runtime_error that names the path.
inline Npy read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) detail::npy_error(path, "cannot be opened");
  std::ostringstream content;
  content << file.rdbuf();
  const std::string bytes = content.str();
  const std::string magic("\x93NUMPY\x01\x00", 8);
  if (bytes.size() < 10 || bytes.compare(0, 8, magic) != 0) {
    detail::npy_error(path, "is not an npy file of version 1.0");
  }
  const std::size_t start = 10u + detail::npy_element<std::uint16_t>(bytes.substr(8, 2), 0);
  if (bytes.size() < start) detail::npy_error(path, "ends inside the header");
  const std::string header = bytes.substr(10, start - 10);
  const std::string data = bytes.substr(start);

  Npy npy;
  const std::string descr = detail::npy_field(header, "descr", path);
  npy.dtype = descr.substr(1, 3);
  if (descr.size() < 5 || descr.front() != '\'' || descr[4] != '\'') {
    detail::npy_error(path, "bad descr");
  }
  if (detail::npy_field(header, "fortran_order", path).compare(0, 5, "False") != 0) {
    detail::npy_error(path, "is not in C order");
  }
  npy.shape = detail::npy_shape(detail::npy_field(header, "shape", path), path);

  std::size_t count = 1;
  for (const std::int64_t extent : npy.shape) {
    const std::size_t e = static_cast<std::size_t>(extent);
    if (e != 0 && count > data.size() / e) detail::npy_error(path, "the shape exceeds the data");
    count *= e;
  }
  const auto each = [&](std::size_t width, auto&& append) {
    if (data.size() != count * width) detail::npy_error(path, "the data has the wrong length");
    for (std::size_t i = 0; i < count; ++i) append(i);
  };
  if (npy.dtype == "<f2") {
    each(2, [&](std::size_t i) {
      npy.values.push_back(detail::half_to_double(detail::npy_element<std::uint16_t>(data, i)));
    });
  } else if (npy.dtype == "<f4") {
    each(4, [&](std::size_t i) {
      npy.values.push_back(static_cast<double>(detail::npy_element<float>(data, i)));
    });
  } else if (npy.dtype == "<f8") {
    each(8, [&](std::size_t i) { npy.values.push_back(detail::npy_element<double>(data, i)); });
  } else if (npy.dtype == "<i8") {
    each(8, [&](std::size_t i) {
      npy.integers.push_back(detail::npy_element<std::int64_t>(data, i));
    });
  } else if (npy.dtype == "|b1") {
    each(1, [&](std::size_t i) { npy.integers.push_back(data[i] != 0 ? 1 : 0); });
  } else {
    detail::npy_error(path, "type " + npy.dtype + " is not supported");
  }
  return npy;
}

}  // namespace support
