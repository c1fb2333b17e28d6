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

/// Reads choices from the fuzzer's bytes. After their end every choice is the first one. If
/// `all_sane`, every number is.
class Draw {
 public:
  explicit Draw(std::span<const std::uint8_t> bytes, bool all_sane = false)
      : bytes_(bytes), all_sane_(all_sane) {}

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
    if (below(8) != 1 || all_sane_) return sane;
    return bad[static_cast<std::size_t>(below(bad.size()))];
  }

  /// Like number(), but 0 one time in four. With another extent that is 0, a large one needs no
  /// memory.
  Index extent(Index sane) { return below(4) == 1 ? 0 : number(sane); }

  /// Like number(), but also near the limits of positions.
  Index position(Index sane) {
    constexpr std::array<Index, 5> near{(Index{1} << 53) - 1, Index{1} << 53, (Index{1} << 53) + 1,
                                        -(Index{1} << 53), -(Index{1} << 53) - 1};
    if (below(8) != 1) return number(sane);
    return near[static_cast<std::size_t>(below(near.size()))];
  }

  /// Returns a time between frames, or an extreme one.
  double step() {
    constexpr std::array<double, 8> steps{1, 0.8, 0, 0x1p52, 0x1p53 - 1, 1e100, 1e300, -1};
    return steps[static_cast<std::size_t>(below(steps.size()))];
  }

  /// Returns a sane stride, or one that leads out of any memory if the axis has more than one
  /// element.
  Index stride(Index sane) {
    const Index stride = number(sane);
    return stride < 0 && stride > -(Index{1} << 60) ? sane : stride;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool all_sane_;
};

/// Memory for one call. Sane views lie within it; nothing may access the outside. The extent of
/// number `omitted` among all extents of the call's views is omitted.
class Memory {
 public:
  explicit Memory(Draw& draw, int omitted = -1) : draw_(draw), omitted_(omitted) {}

  posenc::HeadsView<float> heads(Index b, Index s, Index h, Index d) {
    return heads_in(take(b * s * h * d), b, s, h, d);
  }
  posenc::HeadsView<posenc::Bfloat16> narrow_heads(Index b, Index s, Index h, Index d) {
    narrow_.emplace_back(static_cast<std::size_t>(b * s * h * d), posenc::Bfloat16(0.5F));
    return heads_in(narrow_.back().data(), b, s, h, d);
  }
  posenc::MatrixView<const std::int32_t> ids(Index rows, Index cols) {
    static constexpr std::array<std::int32_t, 64> all{3, 1, 2};
    return matrix_in(all.data(), rows, cols);
  }
  posenc::EmbeddingsView<float> embeddings(Index b, Index s, Index d) {
    return embeddings_in(take(b * s * d), b, s, d);
  }
  posenc::EmbeddingsView<double> doubles(Index b, Index s, Index d) {
    doubles_.emplace_back(static_cast<std::size_t>(b * s * d), 0.5);
    return embeddings_in(doubles_.back().data(), b, s, d);
  }
  posenc::MatrixView<float> matrix(Index rows, Index cols) {
    return matrix_in(take(rows * cols), rows, cols);
  }
  posenc::MatrixView<const bool> flags(Index rows, Index cols) {
    return matrix_in(bools.data(), rows, cols);
  }
  posenc::ScoresView<float> scores(Index b, Index h, Index q, Index k) {
    return scores_in(take(b * h * q * k), b, h, q, k);
  }
  posenc::ScoresView<const bool> mask(Index b, Index h, Index q, Index k) {
    return scores_in(bools.data(), b, h, q, k);
  }
  posenc::LseView<float> lse(Index b, Index h, Index q) {
    return {take(b * h * q),      extent(b, "batch"),  extent(h, "heads"),
            extent(q, "queries"), draw_.stride(h * q), draw_.stride(q)};
  }

  /// Returns the name of the field that was omitted, or nullptr.
  const char* omitted_field() const { return omitted_field_; }

 private:
  static constexpr std::array<bool, 4096> bools{};

  posenc::Extent extent(Index sane, const char* field) {
    const Index number = draw_.number(sane);
    if (omitted_-- != 0) return number;
    omitted_field_ = field;
    return {};
  }
  template <class T>
  posenc::HeadsView<T> heads_in(T* data, Index b, Index s, Index h, Index d) {
    return {data,
            extent(b, "batch"),
            extent(s, "seq"),
            extent(h, "heads"),
            extent(d, "dim"),
            draw_.stride(s * h * d),
            draw_.stride(h * d),
            draw_.stride(d)};
  }
  template <class T>
  posenc::EmbeddingsView<T> embeddings_in(T* data, Index b, Index s, Index d) {
    return {
        data,           extent(b, "batch"), extent(s, "seq"), extent(d, "dim"), draw_.stride(s * d),
        draw_.stride(d)};
  }
  template <class T>
  posenc::MatrixView<T> matrix_in(T* data, Index rows, Index cols) {
    return {data, extent(rows, "rows"), extent(cols, "cols"), draw_.stride(cols)};
  }
  template <class T>
  posenc::ScoresView<T> scores_in(T* data, Index b, Index h, Index q, Index k) {
    return {data,
            extent(b, "batch"),
            extent(h, "heads"),
            extent(q, "queries"),
            extent(k, "keys"),
            draw_.stride(h * q * k),
            draw_.stride(q * k),
            draw_.stride(k)};
  }
  float* take(Index count) {
    buffers_.emplace_back(static_cast<std::size_t>(count), 0.5F);
    return buffers_.back().data();
  }

  Draw& draw_;
  int omitted_;
  const char* omitted_field_ = nullptr;
  std::vector<std::vector<float>> buffers_;
  std::vector<std::vector<double>> doubles_;
  std::vector<std::vector<posenc::Bfloat16>> narrow_;
};

}  // namespace hostile
