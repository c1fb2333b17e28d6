// SPDX-License-Identifier: MIT
// Random combinations of everything that attention() can be told, against the reference.
#include "attention_case.hpp"
#include "reference/alibi.hpp"
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/bias/alibi.hpp>

#include <optional>
#include <vector>

using attention_test::Case;
using attention_test::infinity;
using attention_test::Mask;
using attention_test::Shape;
using posenc::Causal;
using posenc::Index;
using posenc::Positions;

namespace {

/// Options drawn at random, in posenc's words and, independently, in the reference's.
template <class T>
struct RandomCall {
  using Real = posenc::Compute<T>;
  support::Random random;
  Case<T> c;
  posenc::AttentionOptions<T> options;
  std::optional<posenc::Alibi> alibi;
  attention_test::Roundings roundings;
  Mask<bool> keep{1, 1, 1, 1}, masked{1, 1, 1, 1};
  Mask<Real> additive{1, 1, 1, 1};
  std::vector<Index> lengths, query_ids, key_ids;

  explicit RandomCall(std::uint64_t seed) : random(seed), c(random_shape(random), seed) {
    options.scale = random.uniform(0.1, 1.5);
    options.causal = static_cast<Causal>(random.integer(0, 3));
    if (one_in(2)) {
      options.softcap = random.uniform(0.5, 5);
      options.softcap_order =
          one_in(2) ? posenc::SoftcapOrder::BeforeBias : posenc::SoftcapOrder::AfterBias;
      roundings.softcap = true;
    }
    if (one_in(2)) {
      keep = random_mask<bool>();
      keep.fill([&] { return !one_in(4); });
      options.keep = keep.view();
    }
    if (one_in(3)) {
      masked = random_mask<bool>();
      masked.fill([&] { return one_in(5); });
      options.masked = masked.view();
    }
    if (one_in(2)) {
      additive = random_mask<Real>();
      // The reference has one bias, so what is added after a late cap can only be 0 or -inf here.
      const double size = options.softcap_order == posenc::SoftcapOrder::AfterBias ? 0 : 1;
      additive.fill(
          [&] { return static_cast<Real>(one_in(6) ? -infinity : size * random.normal()); });
      options.additive = additive.view();
      roundings.additive = true;
    }
    if (one_in(2)) {
      for (Index b = 0; b < c.shape.batch; ++b) lengths.push_back(random.integer(0, c.shape.keys));
      options.key_lengths = lengths;
    }
    for (Index n = 0; n < c.shape.batch * c.shape.queries; ++n) {
      query_ids.push_back(random.integer(0, 9));
    }
    for (Index n = 0; n < c.shape.batch * c.shape.keys; ++n)
      key_ids.push_back(random.integer(0, 9));
    options.query_positions = Positions::ids(c.shape.batch, query_ids);
    options.key_positions = Positions::ids(c.shape.batch, key_ids);
    if (one_in(2)) {
      alibi.emplace(posenc::AlibiConfig{.heads = c.shape.heads, .form = posenc::AlibiForm::Causal});
      roundings.bias = true;
    }
  }

  void run() {
    if (alibi) {
      c.run(options, *alibi);
    } else {
      c.run(options);
    }
  }

  reference::AttentionRule rule(Index b, Index h) const {
    reference::AttentionRule r;
    r.scale = *options.scale;
    r.softcap = options.softcap;
    r.softcap_order = options.softcap_order == posenc::SoftcapOrder::AfterBias
                          ? reference::SoftcapOrder::AfterBias
                          : reference::SoftcapOrder::BeforeBias;
    r.allowed = [this, b, h](Index i, Index j) { return sees(b, h, i, j); };
    const double slope =
        alibi ? reference::alibi_slopes(c.shape.heads)[static_cast<std::size_t>(h)] : 0;
    r.bias = [this, slope, b, h](Index i, Index j) {
      const double added =
          options.additive.data == nullptr ? 0 : static_cast<double>(additive.at(b, h, i, j));
      return added + reference::alibi_bias(slope, query_at(b, i), key_at(b, j),
                                           reference::AlibiForm::Causal);
    };
    return r;
  }

 private:
  bool one_in(Index n) { return random.integer(1, n) == 1; }

  static Shape random_shape(support::Random& random) {
    const Index kv_heads = random.integer(1, 3);
    return {random.integer(1, 3),
            kv_heads * random.integer(1, 3),
            kv_heads,
            random.integer(0, 7),
            random.integer(0, 9),
            random.integer(1, 12),
            random.integer(1, 9)};
  }

  template <class Element>
  Mask<Element> random_mask() {
    const auto extent = [this](Index full) { return one_in(2) ? full : 1; };
    return {extent(c.shape.batch), extent(c.shape.heads), extent(c.shape.queries),
            extent(c.shape.keys)};
  }

  double query_at(Index b, Index i) const {
    return static_cast<double>(query_ids[static_cast<std::size_t>(b * c.shape.queries + i)]);
  }
  double key_at(Index b, Index j) const {
    return static_cast<double>(key_ids[static_cast<std::size_t>(b * c.shape.keys + j)]);
  }

  bool sees(Index b, Index h, Index i, Index j) const {
    const Index length = lengths.empty() ? c.shape.keys : lengths[static_cast<std::size_t>(b)];
    if (j >= length) return false;
    if (options.causal == Causal::TopLeft && j > i) return false;
    if (options.causal == Causal::BottomRight && j > i + length - c.shape.queries) return false;
    if (options.causal == Causal::ByPosition && key_at(b, j) > query_at(b, i)) return false;
    if (options.keep.data != nullptr && !keep.at(b, h, i, j)) return false;
    return options.masked.data == nullptr || !masked.at(b, h, i, j);
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention equals the reference whatever is asked of it",
                        "[attention][sweep]", attention_test::Scalars) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    RandomCall<TestType> call(seed);
    call.run();
    INFO("seed " << seed);
    CHECK(worst_error(
              call.c, [&](Index b, Index h) { return call.rule(b, h); }, call.roundings) <= 1);
  }
}
