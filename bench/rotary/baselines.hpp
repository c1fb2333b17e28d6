// SPDX-License-Identifier: MIT
#pragma once

#include "../support/comparison.hpp"
#include <posenc/rotary/pairing.hpp>
#include <posenc/tensor/view.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <cmath>
#include <type_traits>

// Baselines: rotation as written without posenc, in plain loops and in Eigen::Tensor expressions.
namespace bench {

template <class T>
using Heads = Eigen::Tensor<T, 4, Eigen::RowMajor>;
using Table = Eigen::Tensor<float, 2, Eigen::RowMajor>;  // [seq, pairs]

/// cos and sin of positions past, past + 1, ... in double, and the frequencies that they are
/// computed from.
struct Angles {
  Angles(Index past_tokens, Index seq, Index rotary_dim, double base)
      : past(past_tokens), inv_freq(rotary_dim / 2), cos(seq, rotary_dim / 2), sin(cos) {
    for (Index i = 0; i < inv_freq.size(); ++i) {
      inv_freq[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
    }
    for (Index s = 0; s < seq; ++s) plain_row(s);
  }

  void plain_row(Index s) {
    for (Index i = 0; i < inv_freq.size(); ++i) {
      const double angle = static_cast<double>(past + s) * inv_freq[i];
      cos(s, i) = static_cast<float>(std::cos(angle));
      sin(s, i) = static_cast<float>(std::sin(angle));
    }
  }

  void eigen_rows() {
    using Matrix = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Eigen::VectorXf positions =
        Eigen::VectorXf::LinSpaced(cos.dimension(0), static_cast<float>(past),
                                   static_cast<float>(past + cos.dimension(0) - 1));
    const Matrix angles = (positions * inv_freq.matrix().cast<float>().transpose()).array();
    Eigen::Map<Matrix>(cos.data(), angles.rows(), angles.cols()) = angles.cos();
    Eigen::Map<Matrix>(sin.data(), angles.rows(), angles.cols()) = angles.sin();
  }

  Index past;
  Eigen::ArrayXd inv_freq;
  Table cos, sin;
};

template <class Pairing, class T>
void plain_rotate_head(T* x, const float* cos, const float* sin, Index pairs) {
  for (Index i = 0; i < pairs; ++i) {
    T& a = x[Pairing::first(i, pairs)];
    T& b = x[Pairing::second(i, pairs)];
    const float x0 = static_cast<float>(a), x1 = static_cast<float>(b);
    a = static_cast<T>(cos[i] * x0 - sin[i] * x1);
    b = static_cast<T>(sin[i] * x0 + cos[i] * x1);
  }
}

/// Loop in memory order, [B, S, H, D] or [B, H, S, D].
template <class Pairing, class T>
void plain_rotate(posenc::HeadsView<T> x, const Table& cos, const Table& sin) {
  x.data = opaque(x.data);
  const Index pairs = opaque(cos.dimension(1));
  const bool heads_inside = x.head_stride < x.seq_stride;
  const Index outer = heads_inside ? x.seq : x.heads, inner = heads_inside ? x.heads : x.seq;
  for (Index o = 0; o < outer; ++o) {
    for (Index i = 0; i < inner; ++i) {
      const Index s = heads_inside ? o : i, h = heads_inside ? i : o;
      plain_rotate_head<Pairing>(x.row(0, s, h), &cos(s, 0), &sin(s, 0), pairs);
    }
  }
}

/// Loop that computes a position's angles for all heads of all tensors, with std::cos and std::sin.
template <class Pairing, class... Views>
void plain_rotate_on_the_fly(Angles& angles, Views... views) {
  const auto rotate = [&](auto x, Index s) {
    x.data = opaque(x.data);
    for (Index h = 0; h < x.heads; ++h) {
      plain_rotate_head<Pairing>(x.row(0, s, h), &angles.cos(s, 0), &angles.sin(s, 0),
                                 angles.cos.dimension(1));
    }
  };
  for (Index s = 0; s < angles.cos.dimension(0); ++s) {
    angles.plain_row(s);
    (rotate(views, s), ...);
  }
}

/// y = R x with rotary_dim == head_dim. It writes to another tensor, because in place an expression
/// would need a temporary.
template <class Pairing>
void eigen_rotate(const Heads<float>& x, Heads<float>& y, const Table& cos, const Table& sin) {
  using Four = Eigen::array<Index, 4>;
  const Index seq = x.dimension(1), heads = x.dimension(2), pairs = cos.dimension(1);
  const auto over_heads = [&](const Table& table) {
    return table.reshape(Four{1, seq, 1, pairs}).broadcast(Four{1, 1, heads, 1});
  };
  const auto c = over_heads(cos), s = over_heads(sin);
  if constexpr (std::is_same_v<Pairing, posenc::HalfRotate>) {
    const Four half{1, seq, heads, pairs}, first{0, 0, 0, 0}, second{0, 0, 0, pairs};
    const auto x0 = x.slice(first, half), x1 = x.slice(second, half);
    y.slice(first, half) = x0 * c - x1 * s;
    y.slice(second, half) = x0 * s + x1 * c;
  } else {
    using Five = Eigen::Tensor<float, 5, Eigen::RowMajor>;
    const Eigen::TensorMap<const Five> in(x.data(), 1, seq, heads, pairs, 2);
    Eigen::TensorMap<Five> out(y.data(), 1, seq, heads, pairs, 2);
    const auto x0 = in.chip<4>(0), x1 = in.chip<4>(1);
    out.chip<4>(0) = x0 * c - x1 * s;
    out.chip<4>(1) = x0 * s + x1 * c;
  }
}

}  // namespace bench
