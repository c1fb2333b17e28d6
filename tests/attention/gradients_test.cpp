// SPDX-License-Identifier: MIT
// Gradients of one query with two keys, by hand: those of tensors are overwritten, those of
// parameters accumulated.
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/attention/gradients.hpp>

#include <array>
#include <cmath>
#include <span>
#include <type_traits>

namespace gradients_test {

using posenc::AttentionGradients;
using posenc::HeadsView;

static_assert(std::is_empty_v<posenc::NoGradient>);

namespace {

/// A query of 0, whose scores are 0, so that the sink and both keys have a probability of 1/3.
struct Call {
  std::array<double, 1> q{0}, out{}, lse{}, grad_out{1};
  std::array<double, 2> k{1, 3}, v{3, 6}, mask{0, 0};
  std::array<double, 1> sinks{0};
  posenc::AttentionOptions<double> options{
      .causal = posenc::Causal::No,
      .additive = {.data = mask.data(), .batch = 1, .heads = 1, .queries = 1, .keys = 2},
      .sinks = sinks};

  template <class T>
  static HeadsView<T> view(T* data, posenc::Index seq) {
    return {data, 1, seq, 1, 1};
  }
  template <class Numbers>
  static auto view(Numbers& x) {
    return view(x.data(), static_cast<posenc::Index>(x.size()));
  }
  void run(const AttentionGradients<double>& gradients) {
    const posenc::LseView<double> sums{lse.data(), 1, 1, 1};
    posenc::attention(view(q), view(k), view(v), view(out), options, {}, {.lse = sums});
    posenc::attention_backward(view(q), view(k), view(v), view(out), sums, view(grad_out),
                               gradients, options);
  }
};

}  // namespace

TEST_CASE("AttentionGradients: one query by hand", "[attention][backward]") {
  Call call;
  std::array<double, 1> q{7}, sinks{100};
  std::array<double, 2> k{7, 7}, v{7, 7}, additive{10, 20};
  call.run({.q = Call::view(q),
            .k = Call::view(k),
            .v = Call::view(v),
            .additive = {.data = additive.data(), .batch = 1, .heads = 1, .queries = 1, .keys = 2},
            .sinks = sinks});
  CHECK(call.out[0] == Approx(3));
  CHECK(call.lse[0] == Approx(std::log(3)));
  CHECK(v[0] == Approx(1 / 3.0));
  CHECK(v[1] == Approx(1 / 3.0));
  // Gradients of the scores are p (v - out) = 0 and 1, and that of the sink, whose value is 0, is -1.
  CHECK(q[0] == Approx(3));
  CHECK(k[0] == Approx(0).margin(1e-15));
  CHECK(k[1] == Approx(0).margin(1e-15));
  CHECK(additive[0] == Approx(10));
  CHECK(additive[1] == Approx(21));
  CHECK(sinks[0] == Approx(99));
}

TEST_CASE("AttentionGradients: views without data unless given", "[attention][backward]") {
  const AttentionGradients<float> none;
  CHECK(none.q.data == nullptr);
  CHECK(none.k.data == nullptr);
  CHECK(none.v.data == nullptr);
  CHECK(none.additive.data == nullptr);
  CHECK(none.sinks.empty());
  const posenc::RelativeGradient<float> relative;
  CHECK(relative.table.data == nullptr);
  CHECK(relative.key_table.data == nullptr);
  CHECK(relative.queries.data == nullptr);
  // A single one is computed, with the bits that it has among all.
  Call call;
  std::array<double, 2> alone{}, among{};
  std::array<double, 1> q{};
  call.run({.v = Call::view(alone)});
  call.run({.q = Call::view(q), .v = Call::view(among)});
  CHECK(alone == among);
  CHECK(alone[0] != 0);
}

}  // namespace gradients_test
