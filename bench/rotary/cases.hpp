// SPDX-License-Identifier: MIT
#pragma once

#include "../support/limits.hpp"
#include "baselines.hpp"
#include "models.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/eigen.hpp>

#include <string>

namespace bench {

constexpr Index past = 4096;  // tokens in the cache before the rotated ones

/// Axis orders: [batch, seq, heads, head_dim] and [batch, heads, seq, head_dim].
struct Bshd {
  static constexpr const char* prefix = "";
  static Eigen::array<Index, 4> shape(Index s, Index h, Index d) { return {1, s, h, d}; }
  template <class X>
  static auto view(X& x) {
    return posenc::bshd(x);
  }
};
struct Bhsd {
  static constexpr const char* prefix = "bhsd_";
  static Eigen::array<Index, 4> shape(Index s, Index h, Index d) { return {1, h, s, d}; }
  template <class X>
  static auto view(X& x) {
    return posenc::bhsd(x);
  }
};

/// Data of all cases of a model's heads. The limit moves the rotary channels, read and written.
template <class Model, class Pairing, class T = float, class Order = Bshd>
struct Setup {
  Setup(Index seq, Index heads)
      : x(Order::shape(seq, heads, Model::head_dim)),
        rope(posenc::Unscaled{.rotary_dim = Model::rotary_dim, .base = Model::base}),
        positions(posenc::Positions::range(past, seq)),
        table(rope.template table<float>(positions)),
        angles(past, seq, Model::rotary_dim, Model::base),
        limit_buffer(std::is_same_v<T, float> ? 0 : seq * heads * Model::head_dim / 2) {
    x.setConstant(static_cast<T>(1));
    limit_buffer.setOnes();
  }

  auto view() { return Order::view(x); }

  Index bytes() const {
    return 2 * x.size() / Model::head_dim * Model::rotary_dim * Index{sizeof(T)};
  }

  auto limit() {
    if constexpr (!std::is_same_v<T, float>) {
      return scale(limit_buffer.data(), limit_buffer.size());
    } else if constexpr (Model::rotary_dim == Model::head_dim) {
      return scale(x.data(), x.size());
    } else {
      return scale_rows<Model::rotary_dim>(x.data(), x.size() / Model::head_dim, Model::head_dim);
    }
  }

  Heads<T> x;
  posenc::Rope<Pairing> rope;
  posenc::Positions positions;
  posenc::RotationTable<Pairing, float> table;
  Angles angles;
  Eigen::ArrayXf limit_buffer;  // as many bytes as x in 16 bits
};

/// Measures rotation from a table, of some of the model's heads.
template <class Model, class Pairing, class Order = Bshd>
void table_case(benchmark::State& state, Index seq, Index heads) {
  Setup<Model, Pairing, float, Order> setup(seq, heads);
  const auto view = setup.view();
  Heads<float> y = setup.x;
  Comparison comparison(state, [&] { setup.table.rotate(view); });
  comparison.beside("vs_limit", setup.limit()).faster_than("vs_plain", [&] {
    plain_rotate<Pairing>(view, setup.angles.cos, setup.angles.sin);
  });
  if constexpr (Model::rotary_dim == Model::head_dim && std::is_same_v<Order, Bshd>) {
    comparison.faster_than(
        "vs_eigen", [&] { eigen_rotate<Pairing>(setup.x, y, setup.angles.cos, setup.angles.sin); });
  }
  comparison.measure(setup.bytes());
}

/// Measures rotation that computes its angles, as the baselines do.
template <class Model, class Pairing>
void on_the_fly_case(benchmark::State& state, Index seq) {
  Setup<Model, Pairing> setup(seq, Model::heads);
  const auto view = setup.view();
  Heads<float> y = setup.x;
  Comparison comparison(state, [&] { setup.rope.rotate(view, setup.positions); });
  comparison.beside("vs_limit", setup.limit()).faster_than("vs_plain", [&] {
    plain_rotate_on_the_fly<Pairing>(setup.angles, view);
  });
  if constexpr (Model::rotary_dim == Model::head_dim) {
    comparison.faster_than("vs_eigen", [&] {
      setup.angles.eigen_rows();
      eigen_rotate<Pairing>(setup.x, y, setup.angles.cos, setup.angles.sin);
    });
  }
  comparison.measure(setup.bytes());
}

/// Measures queries and keys in one call, with angles on the fly.
template <class Model, class Pairing>
void queries_and_keys_case(benchmark::State& state, Index seq) {
  Setup<Model, Pairing> q(seq, Model::heads), k(seq, Model::kv_heads);
  const auto q_view = q.view(), k_view = k.view();
  Comparison(state,
             [&] {
               q.rope.rotate_all({q_view, k_view}, q.positions);
             })
      .beside("vs_limit", one_after_the_other(q.limit(), k.limit()))
      .faster_than("vs_plain", [&] { plain_rotate_on_the_fly<Pairing>(q.angles, q_view, k_view); })
      .measure(q.bytes() + k.bytes());
}

/// Compares a 16-bit type with float. vs_float: our time divided by float's time for as many
/// elements.
template <class Model, class Pairing, class T>
void storage_case(benchmark::State& state, Index seq) {
  Setup<Model, Pairing, T> setup(seq, Model::heads);
  Setup<Model, Pairing> in_float(seq, Model::heads);
  const auto view = setup.view();
  const auto float_view = in_float.view();
  Comparison(state, [&] { setup.table.rotate(view); })
      .beside("vs_limit", setup.limit())
      .beside("vs_float", [&] { in_float.table.rotate(float_view); })
      .faster_than("vs_plain",
                   [&] { plain_rotate<Pairing>(view, setup.angles.cos, setup.angles.sin); })
      .measure(setup.bytes());
}

/// Returns a prefix like "rotary/llama3_8b/prefill_512/half/", to which the mode is appended.
template <class Model, class Pairing>
std::string case_name(const char* phase, const char* part = "") {
  return std::string("rotary/") + Model::name + "/" + phase + "/" + part + Pairing::name + "/";
}

}  // namespace bench
