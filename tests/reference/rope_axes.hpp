// SPDX-License-Identifier: MIT
#pragma once

#include "reference/frequencies.hpp"
#include "reference/rope.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

// Rotary encodings on several axes, each written as in its model's own code: tables per axis that
// are cut and concatenated, never a table that assigns axes to pairs. `ids` holds a token's
// position on each axis. The result has one cos and sin per pair.
namespace reference {

using Ids = std::vector<double>;
using Sections = std::vector<std::int64_t>;

inline void append(CosSin& to, const CosSin& from, std::int64_t first, std::int64_t count) {
  for (std::int64_t i = first; i < first + count; ++i) {
    to.cos.push_back(from.cos.at(static_cast<std::size_t>(i)));
    to.sin.push_back(from.sin.at(static_cast<std::size_t>(i)));
  }
}

/// Qwen2-VL, and Hunyuan's xdrope with four sections: a complete table for each axis, split by
/// sections; chunk a is taken from table a.
inline CosSin chunked(const Ids& ids, const Sections& sections,
                      const std::vector<long double>& inv_freq) {
  CosSin result;
  std::int64_t first = 0;
  for (std::size_t axis = 0; axis < sections.size(); ++axis) {
    append(result, cos_sin(ids.at(axis), inv_freq), first, sections[axis]);
    first += sections[axis];
  }
  return result;
}

/// Qwen3-VL in Hugging Face: the table of t, in which every third entry from 1 (h) and from 2 (w)
/// is overwritten, up to 3 * section.
inline CosSin interleaved_hf(const Ids& ids, const Sections& sections,
                             const std::vector<long double>& inv_freq) {
  CosSin result = cos_sin(ids.at(0), inv_freq);
  for (const std::size_t axis : {std::size_t{1}, std::size_t{2}}) {
    const CosSin other = cos_sin(ids.at(axis), inv_freq);
    const auto end = static_cast<std::size_t>(3 * sections.at(axis));
    for (std::size_t i = axis; i < end && i < inv_freq.size(); i += 3) {
      result.cos[i] = other.cos[i];
      result.sin[i] = other.sin[i];
    }
  }
  return result;
}

/// ggml's IMROPE: four running angles, of which every pair selects one.
inline CosSin interleaved_ggml(const Ids& ids, const Sections& sections,
                               const std::vector<long double>& inv_freq) {
  CosSin result;
  std::int64_t all = 0;
  for (const std::int64_t section : sections) all += section;
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const std::int64_t sector = static_cast<std::int64_t>(i) % all;
    double position = ids.at(3);
    if (sector % 3 == 1 && sector < 3 * sections[1]) {
      position = ids.at(1);
    } else if (sector % 3 == 2 && sector < 3 * sections[2]) {
      position = ids.at(2);
    } else if (sector % 3 == 0 && sector < 3 * sections[0]) {
      position = ids.at(0);
    }
    append(result, cos_sin(position, {inv_freq[i]}), 0, 1);
  }
  return result;
}

/// ERNIE-4.5-VL: even frequencies of the first h + w for h, odd ones for w, stacked and flattened;
/// the last ones for t. Sections [h, w, t], ids [t, h, w].
inline CosSin ernie(const Ids& ids, const Sections& sections,
                    const std::vector<long double>& inv_freq) {
  std::vector<long double> even, odd, last;
  const auto spatial = static_cast<std::size_t>(sections.at(0) + sections.at(1));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    (i >= spatial ? last : i % 2 == 0 ? even : odd).push_back(inv_freq[i]);
  }
  const CosSin h = cos_sin(ids.at(1), even), w = cos_sin(ids.at(2), odd),
               t = cos_sin(ids.at(0), last);
  CosSin result;
  for (std::int64_t i = 0; i < sections[0]; ++i) {
    append(result, h, i, 1);
    append(result, w, i, 1);
  }
  append(result, t, 0, sections.at(2));
  return result;
}

/// Two-dimensional encodings of vision towers: base^(-2j / (head_dim / 2)) for each axis, one axis
/// after the other (Qwen2-VL: h, w; RoPE-ViT and Llama 4: x, y).
inline CosSin two_axes(const Ids& ids, std::int64_t head_dim, long double base) {
  const auto inv_freq = inverse_frequencies(head_dim / 2, base);
  CosSin result = cos_sin(ids.at(0), inv_freq);
  append(result, cos_sin(ids.at(1), inv_freq), 0, head_dim / 4);
  return result;
}

/// Llama 4's form of two_axes(): each frequency twice, both axes, every other column kept.
inline CosSin llama4(const Ids& ids, std::int64_t head_dim, long double base) {
  CosSin twice;
  for (const std::size_t axis : {std::size_t{0}, std::size_t{1}}) {
    for (std::int64_t j = 0; j < head_dim / 2; j += 2) {
      const long double w =
          1 / std::pow(base, static_cast<long double>(j) / static_cast<long double>(head_dim / 2));
      const CosSin one = cos_sin(ids.at(axis), {w});
      append(twice, one, 0, 1);
      append(twice, one, 0, 1);
    }
  }
  CosSin result;
  for (std::int64_t k = 0; k < head_dim; k += 2) append(result, twice, k, 1);
  return result;
}

/// Pixtral: rows use the even frequencies of a full head, columns the odd ones.
inline CosSin pixtral(const Ids& ids, std::int64_t head_dim, long double base) {
  CosSin result;
  for (const std::int64_t axis : {0, 1}) {
    for (std::int64_t i = 2 * axis; i < head_dim; i += 4) {
      const long double w =
          1 / std::pow(base, static_cast<long double>(i) / static_cast<long double>(head_dim));
      append(result, cos_sin(ids.at(static_cast<std::size_t>(axis)), {w}), 0, 1);
    }
  }
  return result;
}

/// ggml's VISION: one running frequency per section, restarted at the section's first pair.
inline CosSin vision_ggml(const Ids& ids, const Sections& sections, std::int64_t head_dim,
                          long double base) {
  CosSin result;
  std::size_t section = 0;
  std::int64_t j = 0;
  for (std::int64_t i = 0; i < head_dim / 2; ++i, ++j) {
    while (j == sections.at(section)) {
      ++section;
      j = 0;
    }
    const long double w =
        std::pow(base, -2 * static_cast<long double>(j) / static_cast<long double>(head_dim / 2));
    append(result, cos_sin(ids.at(section), {w}), 0, 1);
  }
  return result;
}

/// ChatGLM-6B: the head is split into two halves, and each half is rotated by its own id.
inline std::vector<double> chatglm(const std::vector<double>& x, const Ids& ids, long double base) {
  const auto half = static_cast<std::int64_t>(x.size() / 2);
  const auto inv_freq = inverse_frequencies(half, base);
  const RopeRule rule{Pairing::HalfRotate};
  std::vector<double> y = rotate({x.begin(), x.begin() + half}, ids.at(0), inv_freq, rule);
  const auto second = rotate({x.begin() + half, x.end()}, ids.at(1), inv_freq, rule);
  y.insert(y.end(), second.begin(), second.end());
  return y;
}

/// RoPE-ViT mixed: the angle of a pair is the sum over the axes, as one number. Accurate for angles
/// whose sum is exact or small.
inline CosSin mixed(const Ids& ids, const std::vector<std::vector<long double>>& inv_freq_of_axis) {
  CosSin result;
  for (std::size_t i = 0; i < inv_freq_of_axis.at(0).size(); ++i) {
    long double angle = 0;
    for (std::size_t axis = 0; axis < ids.size(); ++axis) {
      angle += static_cast<long double>(ids[axis]) * inv_freq_of_axis[axis][i];
    }
    result.cos.push_back(std::cos(angle));
    result.sin.push_back(std::sin(angle));
  }
  return result;
}

}  // namespace reference
