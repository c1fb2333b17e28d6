// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/kv/kv_format.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace laws {

/// Laws of posenc::KvRowFormat. To check a type of your own:
///
///   laws::check_kv_row_format<MyFormat>(64);
///
/// Pass any number of channels that the format accepts.
template <posenc::KvRowFormat F>
class KvRowFormatLaws {
 public:
  explicit KvRowFormatLaws(posenc::Index channels)
      : channels_(static_cast<std::size_t>(channels)),
        bytes_(static_cast<std::size_t>(F::row_bytes(channels))) {}

  /// Checks that encode() writes row_bytes() bytes, all of them and no others, which depend on the
  /// row alone.
  void encodes_a_row_in_its_bytes(std::span<const float> row) const {
    const std::vector<std::byte> zeros = encoded(row, std::byte{0}),
                                 ones = encoded(row, std::byte{0xff});
    CHECK(std::equal(zeros.begin(), zeros.end() - 1, ones.begin()));
    CHECK(zeros.back() == std::byte{0});
    CHECK(ones.back() == std::byte{0xff});
  }

  /// Checks that decode() writes the row and nothing behind it, and that encode() of the decoded
  /// row gives the same bytes.
  void decoded_rows_are_encoded_to_the_same_bytes(std::span<const float> row) const {
    const std::vector<std::byte> stored = encoded(row, std::byte{0});
    std::vector<float> decoded(channels_ + 1, -7.0F);
    F::decode(std::span(stored).first(bytes_), std::span(decoded).first(channels_));
    CHECK(decoded.back() == -7.0F);
    CHECK(encoded(std::span(decoded).first(channels_), std::byte{0}) == stored);
  }

  std::size_t channels() const { return channels_; }

 private:
  /// Returns the bytes of a row and one byte behind them.
  std::vector<std::byte> encoded(std::span<const float> row, std::byte before) const {
    std::vector<std::byte> stored(bytes_ + 1, before);
    F::encode(row, std::span(stored).first(bytes_));
    return stored;
  }

  std::size_t channels_, bytes_;
};

template <class F>
void check_kv_row_format(posenc::Index channels) {
  STATIC_REQUIRE(posenc::KvRowFormat<F>);
  const KvRowFormatLaws<F> laws(channels);
  support::Random random(static_cast<std::uint64_t>(channels));
  for (int exponent = -140; exponent <= 120; exponent += 4) {
    std::vector<float> row(laws.channels());
    random.fill_normal(row);
    for (float& x : row) x = std::ldexp(x, exponent);
    CAPTURE(channels, exponent);
    laws.encodes_a_row_in_its_bytes(row);
    laws.decoded_rows_are_encoded_to_the_same_bytes(row);
  }
}

}  // namespace laws
