// SPDX-License-Identifier: MIT
#pragma once

#include "reference/float16.hpp"
#include "simd/tiers.hpp"
#include "support/guarded.hpp"
#include "support/heads.hpp"
#include <posenc/rotary/detail/rotation_kernels.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

/// Tests of the rotation kernels against the formula, for one type on every tier.
namespace rotation_kernel_test {

using posenc::Compute;
using posenc::Index;

struct Shape {
  Index pairs = 0;
  Index between = 0;  ///< channels between the halves of HalfRotate that are not rotated
  Index seq = 1, heads = 1;
  Index before = 0, after = 0;  ///< channels around the slice
  bool heads_first = false;     ///< [H, S, D] in memory rather than [S, H, D]
};

/// Returns the smallest step of T. Some numbers under test are only a few such steps.
template <class T>
double smallest_step() {
  if (std::is_same_v<T, double>) return 0x1p-1074;
  if (std::is_same_v<T, float>) return 0x1p-149;
  return std::is_same_v<T, Eigen::half> ? 0x1p-24 : 0x1p-133;
}

/// Returns the nearest T.
template <class T>
T rounded_to(Compute<T> x) {
  if constexpr (sizeof(T) != 2) {
    return x;
  } else {
    const auto format = std::is_same_v<T, Eigen::half> ? reference::ieee_half : reference::bfloat16;
    return std::bit_cast<T>(reference::encode(format, static_cast<double>(x)));
  }
}

/// A tensor between guard pages whose slice can be addressed by pairs. All bits outside the slice
/// are set.
template <class Pairing, class T>
class Tensor {
 public:
  static constexpr bool interleaved = std::is_same_v<Pairing, posenc::Interleaved>;

  Tensor(const Shape& shape, bool front)
      : shape_(shape), memory_(length()), data_(memory_.at(front, length())) {}

  /// Returns the slice of a head at a position.
  T* row(Index s, Index h) { return data_ + s * seq_stride() + h * head_stride() + shape_.before; }
  T& channel(Index s, Index h, Index pair, Index which) {
    return row(s, h)[interleaved ? 2 * pair + which : pair + which * half()];
  }

  template <class Visit>
  void for_each(const Visit& visit) {
    for (Index s = 0; s < shape_.seq; ++s) {
      for (Index h = 0; h < shape_.heads; ++h) {
        for (Index i = 0; i < shape_.pairs; ++i) visit(s, h, i);
      }
    }
  }

  bool surroundings_kept() {
    std::vector<T> kept(data_, data_ + length());
    for_each([&](Index s, Index h, Index i) {
      for (const Index which : {0, 1}) {
        const auto at = static_cast<std::size_t>(&channel(s, h, i, which) - data_);
        std::memset(static_cast<void*>(&kept[at]), 0xff, sizeof(T));
      }
    });
    const auto* bytes = reinterpret_cast<const unsigned char*>(kept.data());
    return std::all_of(bytes, bytes + kept.size() * sizeof(T),
                       [](unsigned char byte) { return byte == 0xff; }) &&
           memory_.kept_around(data_, length());
  }

  Index half() const { return shape_.pairs + shape_.between; }
  Index head_length() const {
    return shape_.before + 2 * shape_.pairs + (interleaved ? 0 : shape_.between) + shape_.after;
  }
  Index seq_stride() const {
    return shape_.heads_first ? head_length() : shape_.heads * head_length();
  }
  Index head_stride() const {
    return shape_.heads_first ? shape_.seq * head_length() : head_length();
  }
  Index length() const { return shape_.seq * shape_.heads * head_length(); }

 private:
  Shape shape_;
  support::Guarded<T> memory_;
  T* data_;
};

/// cos and sin [seq, pairs] between guard pages, with NaN after each row except the last.
template <class C>
class Angles {
 public:
  Angles(support::Random& random, const Shape& shape)
      : stride_(shape.pairs + 3),
        length_((shape.seq - 1) * stride_ + shape.pairs),
        cos_(length_),
        sin_(length_) {
    for (Index s = 0; s < shape.seq; ++s) {
      for (Index i = 0; i < shape.pairs; ++i) {
        const double angle = random.uniform(-4, 4), m = s == 0 ? 1 : 1.25;
        cos()[s * stride_ + i] = static_cast<C>(i % 7 == 3 ? 1 : m * std::cos(angle));
        sin()[s * stride_ + i] = static_cast<C>(i % 7 == 3 ? 0 : m * std::sin(angle));
      }
    }
  }
  C* cos() { return cos_.last(length_); }
  C* sin() { return sin_.last(length_); }
  Index stride() const { return stride_; }

 private:
  Index stride_, length_;
  support::Guarded<C> cos_, sin_;
};

/// Returns the allowed error of y0 = c x0 - s x1. The product with s and the sum are rounded, the
/// other product too if nothing is fused, and then the store.
template <class T>
double allowed(double c_product, double s_product, double result) {
  using C = Compute<T>;
  const double roundings =
      std::abs(s_product) + std::abs(result) + (POSENC_HAS_FMA ? 0 : std::abs(c_product));
  const double arithmetic = support::rounding<C>(1.0001 * roundings) + 2 * smallest_step<C>();
  if (sizeof(T) != 2) return arithmetic;
  return arithmetic +
         std::max(support::rounding<T>(std::abs(result) + arithmetic), smallest_step<T>() / 2);
}

template <class Pairing, class Tier, class T>
class Case {
 public:
  using C = Compute<T>;

  Case(std::uint64_t seed, const Shape& in, const Shape& out, bool front)
      : random_(seed),
        shape_(in),
        front_(front),
        angles_(random_, in),
        in_(in, front),
        out_(out, front) {
    in_.for_each([&](Index s, Index h, Index i) {
      for (const Index which : {0, 1}) in_.channel(s, h, i, which) = number(s, h);
    });
  }

  /// Returns the error text of the rotation out of place or in place, or "" if both are right.
  std::string wrong() {
    std::string text = wrong_by_one_kernel();
    one_position_ = shape_.seq == 1 && shape_.between == 0;
    if (one_position_ && text.empty()) text = wrong_by_one_kernel();
    return text;
  }

 private:
  std::string wrong_by_one_kernel() {
    Tensor<Pairing, T> in_place(shape_, front_);
    in_.for_each([&](Index s, Index h, Index i) {
      for (const Index k : {0, 1}) in_place.channel(s, h, i, k) = in_.channel(s, h, i, k);
    });
    rotate(in_, out_);
    rotate(in_place, in_place);
    if (!out_.surroundings_kept()) return "wrote beyond the slice";
    if (!in_.surroundings_kept()) return "wrote to the input";
    if (!in_place.surroundings_kept()) return "wrote beyond the slice in place";
    std::ostringstream text;
    in_.for_each([&](Index s, Index h, Index i) {
      for (const Index k : {0, 1}) {
        if (!text.str().empty()) return;
        const T got = out_.channel(s, h, i, k), again = in_place.channel(s, h, i, k);
        const T want = formula(s, h, i, k);
        if (!support::same_bits(&got, &want, 1) || !support::same_bits(&again, &want, 1)) {
          text << "position " << s << ", head " << h << ", pair " << i << ": " << got
               << ", in place " << again << ", not " << want;
        } else if (!(error(s, h, i, k) <= 1)) {
          text << "position " << s << ", head " << h << ", pair " << i << ": inaccurate";
        }
      }
    });
    return text.str();
  }

  /// Returns mostly ordinary numbers, some zeros, some denormals. The last head of position 0 is
  /// all zeros.
  T number(Index s, Index h) {
    if (s == 0 && h == shape_.heads - 1 && h > 0) return static_cast<T>(0.0f);
    const auto kind = random_.integer(0, 9);
    const double x = random_.normal();
    if (kind == 0) return static_cast<T>(0.0f);
    return rounded_to<T>(static_cast<C>(kind <= 2 ? 50 * smallest_step<T>() * x : x));
  }

  void rotate(Tensor<Pairing, T>& in, Tensor<Pairing, T>& out) {
    const auto kernel = posenc::detail::block_kernel<Pairing, T, Tier>(shape_.pairs);
    if (one_position_) {
      kernel.rotate_token(in.row(0, 0), out.row(0, 0), shape_.pairs, shape_.heads, angles_.cos(),
                          angles_.sin(), in.head_stride(), out.head_stride());
      return;
    }
    kernel.rotate({
        .in = in.row(0, 0),
        .out = out.row(0, 0),
        .in_seq_stride = in.seq_stride(),
        .in_head_stride = in.head_stride(),
        .out_seq_stride = out.seq_stride(),
        .out_head_stride = out.head_stride(),
        .seq = shape_.seq,
        .heads = shape_.heads,
        .pair_stride = in.half(),
        .pairs = shape_.pairs,
        .angles = {angles_.cos(), angles_.sin(), angles_.stride()},
    });
  }

  C cos(Index s, Index i) { return angles_.cos()[s * angles_.stride() + i]; }
  C sin(Index s, Index i) { return angles_.sin()[s * angles_.stride() + i]; }

  /// Returns c x0 - s x1 or c x1 + s x0, with the roundings that every tier must perform.
  T formula(Index s, Index h, Index i, Index k) {
    const C channel_value = static_cast<C>(in_.channel(s, h, i, k));
    const C partner_value = static_cast<C>(in_.channel(s, h, i, 1 - k));
    const volatile C s_product = (k == 0 ? -sin(s, i) : sin(s, i)) * partner_value;
#if POSENC_HAS_FMA
    return rounded_to<T>(std::fma(cos(s, i), channel_value, static_cast<C>(s_product)));
#else
    const volatile C c_product = cos(s, i) * channel_value;
    return rounded_to<T>(c_product + s_product);
#endif
  }

  /// Returns the error as a share of the allowed error.
  double error(Index s, Index h, Index i, Index k) {
    using Wide = long double;
    const Wide channel_value = static_cast<Wide>(support::to_double(in_.channel(s, h, i, k)));
    const Wide partner_value = static_cast<Wide>(support::to_double(in_.channel(s, h, i, 1 - k)));
    const Wide c = static_cast<Wide>(cos(s, i)) * channel_value;
    const Wide n = static_cast<Wide>(k == 0 ? -sin(s, i) : sin(s, i)) * partner_value;
    const Wide got = static_cast<Wide>(support::to_double(out_.channel(s, h, i, k)));
    return static_cast<double>(std::abs(got - (c + n))) /
           allowed<T>(static_cast<double>(c), static_cast<double>(n), static_cast<double>(c + n));
  }

  support::Random random_;
  Shape shape_;
  bool front_;
  bool one_position_ = false;
  Angles<C> angles_;
  Tensor<Pairing, T> in_, out_;
};

template <class Pairing, class Tier, class T>
void check(const Shape& shape, bool front, bool heads_first_out) {
  Shape out = shape;
  out.heads_first = heads_first_out;
  // The side at the guard page must stay without extra channels; the other side gets one more.
  (front ? out.after : out.before) += 1;
  const auto seed = static_cast<std::uint64_t>(1000 * shape.pairs + shape.heads);
  INFO(Tier::name << ", " << Pairing::name << ", pairs " << shape.pairs << ", between "
                  << shape.between << ", heads " << shape.heads << ", around " << shape.before
                  << " and " << shape.after << (front ? ", front" : ", back"));
  CHECK(Case<Pairing, Tier, T>(seed, shape, out, front).wrong() == "");
}

template <class Pairing, class Tier, class T>
void check_pairing() {
  constexpr Index step = posenc::detail::RotationStep<Pairing, T, Tier>::pairs;
  std::vector<Index> sizes{32, 40, 48, 64, 96, 128, 130};
  for (Index pairs = 1; pairs <= 4 * step + 1; ++pairs) sizes.push_back(pairs);
  for (const Index pairs : sizes) {
    const bool sparse = pairs > 4 * step + 1 || pairs > 18;
    for (Index heads = 1; heads <= 9; ++heads) {
      if (sparse && heads % 3 != 0 && heads != 1) continue;
      for (const bool front : {true, false}) {
        const bool odd = (pairs + heads) % 2 != 0;
        Shape shape{.pairs = pairs, .seq = 1 + heads % 3, .heads = heads, .heads_first = odd};
        (front ? shape.after : shape.before) = heads % 4;
        check<Pairing, Tier, T>(shape, front, (pairs + heads) % 3 == 0);
        if (heads % 3 != 0) continue;
        shape.between = 1 + heads / 3;
        check<Pairing, Tier, T>(shape, front, odd);
      }
    }
  }
}

template <class Tier, class T>
void check_all() {
  check_pairing<posenc::Interleaved, Tier, T>();
  check_pairing<posenc::HalfRotate, Tier, T>();
}

}  // namespace rotation_kernel_test
