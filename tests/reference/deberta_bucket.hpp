// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace reference {

/// Natural number of any size, in digits of 32 bits, lowest digit first, without leading zeros.
struct Natural {
  std::vector<std::uint32_t> digits{1};

  Natural& operator*=(std::uint32_t factor) {
    std::uint64_t carry = 0;
    for (std::uint32_t& digit : digits) {
      carry += static_cast<std::uint64_t>(digit) * factor;
      digit = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) digits.push_back(static_cast<std::uint32_t>(carry));
    return *this;
  }

  bool operator<=(const Natural& other) const {
    if (digits.size() != other.digits.size()) return digits.size() < other.digits.size();
    for (std::size_t n = digits.size(); n-- > 0;) {
      if (digits[n] != other.digits[n]) return digits[n] < other.digits[n];
    }
    return true;
  }
};

inline void check_deberta_buckets(std::int64_t x, std::int64_t buckets, std::int64_t max_relative) {
  constexpr std::int64_t limit = 0xffffffff;
  if (buckets < 2 || max_relative - 1 <= buckets / 2 || max_relative > limit || x > limit ||
      x < -limit) {
    throw std::invalid_argument("deberta_bucket: the logarithms are not those of numbers above 1");
  }
}

/// DeBERTa-v2's log bucket of x = query - key, arXiv 2006.03654, in exact integer arithmetic.
///
/// With mid = buckets / 2 it is x up to mid, then sign(x) (mid + n) with the smallest n for which
/// ln(|x| / mid) / ln((M - 1) / mid) (mid - 1) <= n, that is |x|^(mid - 1) mid^n <= (M - 1)^n
/// mid^(mid - 1). Without buckets it is x.
inline std::int64_t deberta_bucket(std::int64_t x, std::int64_t buckets,
                                   std::int64_t max_relative) {
  if (buckets <= 0) return x;
  check_deberta_buckets(x, buckets, max_relative);
  const std::int64_t mid = buckets / 2;
  const std::int64_t distance = x < 0 ? -x : x;
  if (distance <= mid) return x;

  const auto digit = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  Natural left, right;
  for (std::int64_t n = 0; n < mid - 1; ++n) {
    left *= digit(distance);
    right *= digit(mid);
  }
  std::int64_t n = 0;
  for (; !(left <= right); ++n) {
    left *= digit(mid);
    right *= digit(max_relative - 1);
  }
  return x < 0 ? -(mid + n) : mid + n;
}

/// DeBERTa-v2's log bucket as in the model's code (make_log_bucket_position), with logarithms in
/// float.
inline std::int64_t deberta_bucket_as_coded(std::int64_t x, std::int64_t buckets,
                                            std::int64_t max_relative) {
  if (buckets <= 0) return x;
  check_deberta_buckets(x, buckets, max_relative);
  const std::int64_t mid = buckets / 2;
  const std::int64_t distance = x < 0 ? -x : x;
  if (distance <= mid) return x;
  const auto as_float = [](auto value) { return static_cast<float>(value); };
  const float reach =
      std::log(as_float(static_cast<double>(max_relative - 1) / static_cast<double>(mid)));
  const float steps =
      std::ceil(std::log(as_float(distance) / as_float(mid)) / reach * as_float(mid - 1));
  const std::int64_t bucket = mid + static_cast<std::int64_t>(steps);
  return x < 0 ? -bucket : bucket;
}

}  // namespace reference
