// SPDX-License-Identifier: MIT
#pragma once

#include "attention/attend.hpp"
#include "attention/attention_case.hpp"
#include <posenc/attention/options.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/t5.hpp>

#include <optional>
#include <string>
#include <vector>

namespace attention_test {

/// Set of options and a bias for attention over a growing sequence.
struct Variant {
  std::string name;
  enum class Bias { None, Alibi, T5 } bias = Bias::None;
  posenc::Window window = {};
  bool keep = false, additive = false, sinks = false;
  posenc::SoftcapOrder softcap = posenc::SoftcapOrder::Unspecified;
  double dropout = 0;
};

inline const std::vector<Variant>& variants() {
  using posenc::SoftcapOrder;
  static const std::vector<Variant> all{
      {.name = "plain"},
      {.name = "alibi", .bias = Variant::Bias::Alibi},
      {.name = "t5", .bias = Variant::Bias::T5},
      {.name = "window of 40", .window = posenc::sliding_window(40)},
      {.name = "window of 1, sinks", .window = posenc::sliding_window(1), .sinks = true},
      {.name = "window of 129, alibi",
       .bias = Variant::Bias::Alibi,
       .window = posenc::sliding_window(129)},
      {.name = "boolean mask", .keep = true},
      {.name = "additive mask, t5", .bias = Variant::Bias::T5, .additive = true},
      {.name = "soft cap before t5",
       .bias = Variant::Bias::T5,
       .softcap = SoftcapOrder::BeforeBias},
      {.name = "soft cap after alibi",
       .bias = Variant::Bias::Alibi,
       .softcap = SoftcapOrder::AfterBias},
      {.name = "sinks", .sinks = true},
      {.name = "dropout", .dropout = 0.3},
      {.name = "all together",
       .bias = Variant::Bias::Alibi,
       .window = posenc::sliding_window(150),
       .keep = true,
       .additive = true,
       .sinks = true,
       .softcap = SoftcapOrder::BeforeBias,
       .dropout = 0.1},
  };
  return all;
}

/// Queries, keys and values of a sequence that covers more than two tiles of keys, for decoding and
/// prefill.
template <class T>
class Decoding {
 public:
  using Real = posenc::Compute<T>;
  static constexpr Index heads = 4, kv_heads = 2, length = 300, dim = 10, value_dim = 20;

  Case<T> c;
  Lse<Real> lse{1, heads, length};

  explicit Decoding(const Variant& variant)
      : c({1, heads, kv_heads, length, length, dim, value_dim}, 1), variant_(variant) {
    support::Random random(2);
    if (variant.keep) keep_.fill([&] { return random.integer(0, 3) != 0; });
    if (variant.additive) {
      additive_.fill([&] {
        return static_cast<Real>(random.integer(0, 5) == 0 ? -infinity : random.normal());
      });
    }
    random.fill_normal(table_);
    random.fill_normal(sinks_);
    if (variant.bias == Variant::Bias::Alibi) {
      bias_.emplace(posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));
    } else if (variant.bias == Variant::Bias::T5) {
      bias_.emplace(posenc::T5Bias<float>(
          posenc::MatrixView<const float>{table_.data(), buckets, heads, heads},
          {.buckets = buckets, .max_distance = 90, .direction = posenc::T5Direction::Causal}));
    }
  }

  /// Returns the options for queries first .. first + count - 1 with the keys before `keys`,
  /// without a causal rule.
  posenc::AttentionOptions<T> options(Index first, Index count, Index keys) {
    posenc::AttentionOptions<T> o;
    const auto part = [&](auto mask) {
      mask.data += first * mask.query_stride;
      mask.queries = count;
      mask.keys = keys;
      return mask;
    };
    o.window = variant_.window;
    if (variant_.keep) o.keep = part(keep_.view());
    if (variant_.additive) o.additive = part(additive_.view());
    if (variant_.sinks) o.sinks = sinks_;
    if (variant_.softcap != posenc::SoftcapOrder::Unspecified) {
      o.softcap = 2;
      o.softcap_order = variant_.softcap;
    }
    o.dropout = {.probability = variant_.dropout, .seed = 5};
    return o;
  }

  /// Returns memory for the log-sum-exps of these queries.
  posenc::AttentionMemory<T> memory(Index first, Index count) {
    return {.lse = slice_queries(lse.view(), first, count)};
  }

  const AnyBias* bias() const { return bias_ ? &*bias_ : nullptr; }

  /// Attends with all queries in one call.
  void prefill() {
    auto o = options(0, length, length);
    o.causal = posenc::Causal::BottomRight;
    attend(c.q.view(), c.k.view(), c.v.view(), c.out.view(), o, bias(), {.lse = lse.view()});
  }

  /// Discards the results.
  void clear() {
    c.out = support::Heads<T>(1, length, heads, value_dim);
    lse = Lse<Real>(1, heads, length);
  }

 private:
  static constexpr Index buckets = 32;

  const Variant& variant_;
  Mask<bool> keep_{1, heads, length, length};
  Mask<Real> additive_{1, 1, length, length};
  std::vector<float> table_ = std::vector<float>(buckets * heads);
  std::vector<Real> sinks_ = std::vector<Real>(heads);
  std::optional<AnyBias> bias_;
};

}  // namespace attention_test
