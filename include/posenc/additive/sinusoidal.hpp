// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/additive/detail/rows.hpp>
#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <type_traits>

POSENC_STABLE_BEGIN

/// The order of sin and cos in the channels, and the end of the frequency range. Weights trained
/// with one layout are useless with another, so there is no default. With n = model_dim / 2,
/// rounded down:
///   Interleaved               [s c s c s c s c]  base^(-2i / model_dim)
///                             the paper and code that follows it; an odd width drops the last cos
///   Concatenated              [s s s s c c c c]  base^(-i / n)
///                             MAE, x-transformers, GPT-J; an odd width ends with a zero
///   ConcatenatedEndInclusive  [s s s s c c c c]  base^(-i / (n - 1)), which ends at 1 / base
///                             tensor2tensor, fairseq, gemma.cpp, MLX; an odd width ends with 0.
///                             With n = 1, where fairseq and gemma.cpp divide by zero, it is 1
enum class SinusoidalLayout {
  Unspecified,              ///< no layout is given, which is a ConfigError
  Interleaved,              ///< sin and cos of a frequency are neighbours
  Concatenated,             ///< all sin, then all cos
  ConcatenatedEndInclusive  ///< all sin, then all cos; the last frequency is 1 / base
};

/// Settings of Sinusoidal.
struct SinusoidalConfig {
  Index model_dim = 0;  ///< required; any width, but 1 only with Interleaved
  SinusoidalLayout layout = SinusoidalLayout::Unspecified;  ///< required
  double base = 10000;                                      ///< > 1
  Index start = 0;   ///< added to every position: fairseq numbers tokens from padding_idx + 1
  double scale = 1;  ///< multiplies the encoding: x-transformers learns it, from model_dim^-0.5
};

static_assert(std::is_trivially_copyable_v<SinusoidalConfig>);

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// sin and cos of the positions on one axis, arranged in `width` channels.
class SinusoidalAxis {
 public:
  /// Copies the axis. Moving copies, too, because an encoding that was moved from would report
  /// channels of which it has no frequencies.
  SinusoidalAxis(const SinusoidalAxis&) = default;
  SinusoidalAxis& operator=(const SinusoidalAxis&) = default;

  SinusoidalAxis(const char* function, Index width, SinusoidalLayout layout, double base)
      : width_(width),
        layout_(layout),
        frequencies_(make_frequencies(function, width, layout, base)),
        oscillator_(exact_inv_freq(frequencies_), AnglePolicy::Exact, function) {}

  /// Writes scale * the encoding of a position to row[0 .. width), rounded once to C.
  template <std::floating_point C>
  void write(double position, double scale, C* row) const noexcept {
    const Index pairs = frequencies_.pairs();
    if (layout_ == SinusoidalLayout::Interleaved) {
      constexpr Index chunk = 128;
      C cos[chunk], sin[chunk];
      for (Index first = 0; first < pairs; first += chunk) {
        const Index count = (std::min)(chunk, pairs - first);
        oscillator_.cos_sin_row(position, first, count, scale, cos, sin);
        interleave_row(sin, cos, row + 2 * first, (std::min)(2 * count, width_ - 2 * first));
      }
    } else {
      oscillator_.cos_sin_row(position, 0, pairs, scale, row + pairs, row);
      if (width_ > 2 * pairs) row[width_ - 1] = C{0};
    }
  }

  /// Computes the row that write() writes, for the Interleaved layout, in parts. It calls
  /// part(first, values, count) for channels that jointly cover the row.
  template <std::floating_point C, class Part>
  void compute_interleaved(double position, double scale, const Part& part) const noexcept {
    constexpr Index chunk = 32;
    C cos[chunk], sin[chunk], interleaved[2 * chunk];
    Index i = 0;
    // The count is a compile-time constant, so that values stay in registers.
    for (; i + chunk <= width_ / 2; i += chunk) {
      oscillator_.cos_sin_row_inline(position, i, chunk, scale, cos, sin);
      interleave_row(sin, cos, interleaved, 2 * chunk);
      part(2 * i, interleaved, 2 * chunk);
    }
    if (const Index rest = width_ - 2 * i; rest > 0) {
      oscillator_.cos_sin_row(position, i, frequencies_.pairs() - i, scale, cos, sin);
      interleave_row(sin, cos, interleaved, rest);
      part(2 * i, interleaved, rest);
    }
  }

  const Frequencies& frequencies() const noexcept { return frequencies_; }
  const Oscillator& oscillator() const noexcept { return oscillator_; }

 private:
  static Frequencies make_frequencies(const char* function, Index width, SinusoidalLayout layout,
                                      double base) {
    check_base(function, base);
    const Index half = width / 2;
    if (layout == SinusoidalLayout::Interleaved) {
      return exact_frequencies(power_law(base, width, width - half));
    }
    if (layout != SinusoidalLayout::Concatenated &&
        layout != SinusoidalLayout::ConcatenatedEndInclusive) {
      fail<ConfigError>(
          function, "layout must be set to Interleaved, Concatenated or ConcatenatedEndInclusive");
    }
    if (half == 0) {
      fail<ConfigError>(function,
                        "a concatenated layout needs at least 2 channels per axis but has ", width);
    }
    const Index steps = layout == SinusoidalLayout::Concatenated ? half : half - 1;
    return exact_frequencies(power_law(base, 2 * (std::max)(steps, Index{1}), half));
  }

  Index width_;
  SinusoidalLayout layout_;
  Frequencies frequencies_;
  Oscillator oscillator_;
};

}  // namespace detail

/// Sinusoidal position encoding (arXiv 1706.03762, section 3.5): X += scale * P[start + position].
///
/// P[p] holds sin(p w_i) and cos(p w_i). The layout defines their order and the frequencies w_i.
///
/// A small immutable value. It has no table, so positions are not limited by a length. All calls
/// may run on any number of threads at once.
/// The backward pass leaves the gradient of x unchanged; scale_gradient() is the gradient of a
/// learned scale. The original Transformer multiplies x by sqrt(D) first, which is left to the
/// caller.
///   Shapes:   x [B, S, D], D == model_dim; positions [B or 1, S] on one axis, real ones too
///   Types:    float, double, half, bfloat16; arithmetic in float (double for double), rounded once
///   Throws:   ConfigError from the constructor. ShapeError; PositionError if |start| + |position|
///             exceeds 2^50; nothing is written then
///   Device:   the threads of the device share the tokens; results are bit-identical
///   Accuracy: sin and cos as stated at AnglePolicy::Exact, at any position; start + position is
///             rounded to double if it is not an integer
///   Cost:     D / 2 sin and cos per position, once for all batch rows if they share their
///             positions; one pass over x; one row of scratch per call
class Sinusoidal {
 public:
  /// Constructs the encoding.
  ///   Throws: ConfigError
  explicit Sinusoidal(const SinusoidalConfig& config)
      : config_(checked(config)), axis_(name, config.model_dim, config.layout, config.base) {}

  /// Adds scale * P to x.
  template <detail::Writable T, Device D = detail::CallingThread>
  void add_to(EmbeddingsView<T> x, const Positions& positions, const D& device = {}) const {
    store<true>("Sinusoidal::add_to", device, x, positions);
  }

  /// Writes scale * P to out.
  template <detail::Writable T, Device D = detail::CallingThread>
  void write_to(EmbeddingsView<T> out, const Positions& positions, const D& device = {}) const {
    store<false>("Sinusoidal::write_to", device, out, positions);
  }

  /// Returns the gradient of a learned scale: the sum of grad * P over all tokens and channels, in
  /// double. grad [B, S, D] is the gradient of the output. The result does not depend on the
  /// device.
  template <class T, Device D = detail::CallingThread>
  requires Scalar<std::remove_const_t<T>>
  double scale_gradient(EmbeddingsView<T> grad, const Positions& positions,
                        const D& device = {}) const {
    check<const T>("Sinusoidal::scale_gradient", grad, positions);
    if (grad.empty()) return 0;
    const bool shared = positions.batch() == 1;
    const Index rows = shared ? Index{grad.batch} : 1;  // batch rows of grad that share a row of P
    const detail::ReductionSplit parts(shared ? Index{grad.seq} : grad.batch * grad.seq);
    // Every part of the sum has one row of P, allocated here, because threads must not allocate.
    detail::AlignedVector<double> encodings(static_cast<std::size_t>(parts.size() * grad.dim));
    double sums[detail::ReductionSplit::max_parts] = {};
    const auto sum_of_part = [&](Index part) {
      double* const encoding = encodings.data() + part * grad.dim;
      double sum = 0;
      for (Index token = parts.begin(part); token < parts.begin(part + 1); ++token) {
        const Index b = shared ? 0 : token / grad.seq, s = token - b * grad.seq;
        axis_.write(at(positions, b, s), 1, encoding);
        for (Index row = b; row < b + rows; ++row) {
          const T* const values = grad.row(row, s);
          for (Index i = 0; i < grad.dim; ++i) {
            sum = mul_add(static_cast<double>(values[i]), encoding[i], sum);
          }
        }
      }
      return sum;
    };
    const double bytes =
        static_cast<double>(rows * grad.dim) * sizeof(T) * static_cast<double>(parts.begin(1));
    detail::parallel_for(device, parts.size(), bytes, bytes, [&](Index part, Index end) {
      for (; part < end; ++part) sums[part] = sum_of_part(part);
    });
    double sum = 0;
    for (Index part = 0; part < parts.size(); ++part) sum += sums[part];
    return sum;
  }

  /// Returns the settings.
  const SinusoidalConfig& config() const noexcept { return config_; }
  /// Returns D, the width of the embeddings.
  Index model_dim() const noexcept { return config_.model_dim; }
  /// Returns w_i, fastest first.
  const Frequencies& frequencies() const noexcept { return axis_.frequencies(); }

  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void add_to(detail::RefusedCall<detail::AdditiveRule>, ...) const;
  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void write_to(detail::RefusedCall<detail::AdditiveRule>, ...) const;

 private:
  double at(const Positions& positions, Index b, Index s) const noexcept {
    return positions.at(b, s) + static_cast<double>(config_.start);
  }

  template <bool Add, Device D, detail::Writable T>
  void store(const char* function, const D& device, EmbeddingsView<T> x,
             const Positions& positions) const {
    check(function, x, positions);
    // Only the Interleaved layout is stored in parts. Parts of concatenated halves would double the
    // number of streams through x. With 16-bit elements, rounding alone keeps the arithmetic units
    // busy during memory accesses.
    if constexpr (std::is_same_v<T, Compute<T>>) {
      if (config_.layout == SinusoidalLayout::Interleaved) {
        detail::store_lazy_rows<Add>(
            device, x, positions.batch() == 1, [&](Index b, Index s, const auto& part) {
              axis_.compute_interleaved<T>(at(positions, b, s), config_.scale, part);
            });
        return;
      }
    }
    detail::store_eager_rows<Add>(device, x, positions.batch() == 1,
                                  [&](Index b, Index s, Compute<T>* row) {
                                    axis_.write(at(positions, b, s), config_.scale, row);
                                  });
  }

  static constexpr auto name = "Sinusoidal";
  static constexpr double max_angle = 0x1p50;

  static const SinusoidalConfig& checked(const SinusoidalConfig& config) {
    if (config.model_dim < 1) {
      detail::fail<ConfigError>(name, "model_dim must be set and positive but is ",
                                config.model_dim);
    }
    detail::check_max_channels(name, "model_dim", config.model_dim);
    if (!(std::abs(static_cast<double>(config.start)) <= max_angle)) {
      detail::fail<ConfigError>(name, "start must lie within 2^50 but is ", config.start);
    }
    if (!std::isfinite(config.scale)) {
      detail::fail<ConfigError>(name, "scale must be finite but is ", config.scale);
    }
    return config;
  }

  template <class T>
  void check(const char* function, const EmbeddingsView<T>& x, const Positions& positions) const {
    detail::check_embeddings(function, x, config_.model_dim, positions);
    // The largest frequency of every layout is 1, so that the largest angle is the largest
    // position.
    const double magnitude =
        positions.max_magnitude() + std::abs(static_cast<double>(config_.start));
    if (!(magnitude <= max_angle)) {
      detail::fail<PositionError>(
          function, "|start| + |position| must not exceed 2^50, but start is ", config_.start,
          " and a position has magnitude ", positions.max_magnitude());
    }
  }

  SinusoidalConfig config_;
  detail::SinusoidalAxis axis_;
};

POSENC_END
