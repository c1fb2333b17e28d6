// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/bfloat16.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

// Numbers and views for calls of a fuzzer: mostly sane, sometimes extreme.
namespace hostile {

using posenc::Index;

/// Reads choices from the fuzzer's bytes. After their end every choice is the first one.
class Draw {
 public:
  explicit Draw(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  Index below(Index count) {
    if (bytes_.empty()) return 0;
    const Index chosen = bytes_.front() % count;
    bytes_ = bytes_.subspan(1);
    return chosen;
  }

  /// Returns `sane`, or, one time in eight, any negative or impossibly large number.
  Index number(Index sane) {
    constexpr Index most = (std::numeric_limits<Index>::max)();
    constexpr Index least = (std::numeric_limits<Index>::min)();
    constexpr std::array<Index, 12> bad{
        -1,   -7,       -(Index{1} << 31), -(Index{1} << 62), least,     least + 1,
        most, most - 1, most / 2,          most / 2 + 1,      most - 63, Index{1} << 61};
    if (below(8) != 1) return sane;
    return bad[static_cast<std::size_t>(below(bad.size()))];
  }

  /// Returns a sane stride, or one that leads out of any memory if the axis has more than one
  /// element.
  Index stride(Index sane) {
    const Index stride = number(sane);
    return stride < 0 && stride > -(Index{1} << 60) ? sane : stride;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// Memory for one call. Sane views lie within it; nothing may access the outside.
class Memory {
 public:
  explicit Memory(Draw& draw) : draw_(draw) {}

  posenc::HeadsView<float> heads(Index b, Index s, Index h, Index d) {
    return {take(b * s * h * d), draw_.number(b),         draw_.number(s),     draw_.number(h),
            draw_.number(d),     draw_.stride(s * h * d), draw_.stride(h * d), draw_.stride(d)};
  }
  posenc::HeadsView<posenc::Bfloat16> narrow_heads(Index b, Index s, Index h, Index d) {
    narrow_.emplace_back(static_cast<std::size_t>(b * s * h * d), posenc::Bfloat16(0.5F));
    return {narrow_.back().data(), draw_.number(b),         draw_.number(s),     draw_.number(h),
            draw_.number(d),       draw_.stride(s * h * d), draw_.stride(h * d), draw_.stride(d)};
  }
  posenc::MatrixView<const std::int32_t> ids(Index rows, Index cols) {
    static constexpr std::array<std::int32_t, 64> all{3, 1, 2};
    return {all.data(), draw_.number(rows), draw_.number(cols), draw_.stride(cols)};
  }
  posenc::EmbeddingsView<float> embeddings(Index b, Index s, Index d) {
    return {take(b * s * d), draw_.number(b),     draw_.number(s),
            draw_.number(d), draw_.stride(s * d), draw_.stride(d)};
  }
  posenc::EmbeddingsView<double> doubles(Index b, Index s, Index d) {
    doubles_.emplace_back(static_cast<std::size_t>(b * s * d), 0.5);
    return {doubles_.back().data(), draw_.number(b),     draw_.number(s),
            draw_.number(d),        draw_.stride(s * d), draw_.stride(d)};
  }
  posenc::MatrixView<float> matrix(Index rows, Index cols) {
    return {take(rows * cols), draw_.number(rows), draw_.number(cols), draw_.stride(cols)};
  }
  posenc::ScoresView<float> scores(Index b, Index h, Index q, Index k) {
    return {take(b * h * q * k), draw_.number(b),         draw_.number(h),     draw_.number(q),
            draw_.number(k),     draw_.stride(h * q * k), draw_.stride(q * k), draw_.stride(k)};
  }
  posenc::ScoresView<const bool> mask(Index b, Index h, Index q, Index k) {
    static constexpr std::array<bool, 4096> all{};
    return {all.data(),      draw_.number(b),         draw_.number(h),     draw_.number(q),
            draw_.number(k), draw_.stride(h * q * k), draw_.stride(q * k), draw_.stride(k)};
  }
  posenc::LseView<float> lse(Index b, Index h, Index q) {
    return {take(b * h * q), draw_.number(b),     draw_.number(h),
            draw_.number(q), draw_.stride(h * q), draw_.stride(q)};
  }

 private:
  float* take(Index count) {
    buffers_.emplace_back(static_cast<std::size_t>(count), 0.5F);
    return buffers_.back().data();
  }

  Draw& draw_;
  std::vector<std::vector<float>> buffers_;
  std::vector<std::vector<double>> doubles_;
  std::vector<std::vector<posenc::Bfloat16>> narrow_;
};

}  // namespace hostile
