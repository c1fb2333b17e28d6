// SPDX-License-Identifier: MIT
#pragma once

#include "attend.hpp"
#include "attention_case.hpp"
#include "reference/alibi.hpp"
#include "reference/t5.hpp"
#include <posenc/attention/dropout.hpp>

#include <Eigen/Core>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

namespace attention_test {

/// Features that a random call must not have.
struct Without {
  bool packing = false, dropout = false, bias = false, sinks = false, rounding = false;
};

/// Call of attention() with random options, expressed for posenc and, independently, for the
/// reference.
template <class T>
class RandomCall {
 public:
  using Real = posenc::Compute<T>;

  support::Random random;
  Case<T> c;
  posenc::AttentionOptions<T> options;
  posenc::AttentionMemory<T> memory;
  std::optional<AnyBias> bias;
  Roundings roundings;
  Lse<Real> lse;

  RandomCall(std::uint64_t seed, const Shape& shape, const Without& without = {},
             support::Layout layout = {})
      : RandomCall(support::Random(seed), seed, shape, without, layout) {}
  /// Draws options from `choices`, and numbers from the seed.
  RandomCall(const support::Random& choices, std::uint64_t seed, const Shape& shape,
             const Without& without, support::Layout layout)
      : random(choices), c(shape, seed, layout), lse(shape.batch, shape.heads, shape.queries) {
    options.scale = random.uniform(0.1, 1.5) * std::min(1.0, 3 * c.default_scale());
    memory.lse = lse.view();
    draw_sequences(!without.packing && shape.batch == 1 && one_in(3));
    draw_places();
    draw_masks();
    draw_softcap();
    if (!without.dropout && one_in(4)) {
      options.dropout = {.probability = random.uniform(0.05, 0.6), .seed = seed};
      roundings.kept_times = 1 / (1 - options.dropout.probability);
    }
    if (!without.sinks && one_in(3)) {
      for (Index h = 0; h < shape.heads; ++h) sinks_.push_back(static_cast<Real>(random.normal()));
      options.sinks = sinks_;
    }
    if (!without.bias && shape.heads > 0) draw_bias();
    draw_positions();
    draw_temperature();
    if constexpr (std::is_same_v<T, Eigen::bfloat16>) {
      if (!without.rounding && one_in(2)) {
        options.probabilities = posenc::Probabilities::RoundedToBfloat16;
        roundings.probability = rounding_of_bfloat16;
      }
    }
  }
  RandomCall(const RandomCall&) = delete;  // options and memory refer to members
  RandomCall& operator=(const RandomCall&) = delete;

  const AnyBias* bias_pointer() const { return bias ? &*bias : nullptr; }
  void run() {
    attend(c.q.view(), c.k.view(), c.v.view(), c.out.view(), options, bias_pointer(), memory);
  }

  reference::AttentionRule rule(Index b, Index h) const {
    reference::AttentionRule r;
    r.scale = *options.scale;
    r.softcap = options.softcap;
    r.softcap_order = options.softcap_order == posenc::SoftcapOrder::AfterBias
                          ? reference::SoftcapOrder::AfterBias
                          : reference::SoftcapOrder::BeforeBias;
    if (options.temperature) {
      r.temperature = [this, b](Index i) { return options.temperature(query_at(b, i)); };
      r.temperature_of =
          static_cast<reference::TemperatureOf>(static_cast<int>(options.temperature_of) - 1);
    }
    r.allowed = [this, b, h](Index i, Index j) { return sees(b, h, i, j); };
    if (options.additive.data != nullptr) {
      r.added = [this, b, h](Index i, Index j) {
        return static_cast<double>(additive.at(b, h, i, j));
      };
    }
    if (bias) r.bias = [this, b, h](Index i, Index j) { return bias_at(b, h, i, j); };
    if (!sinks_.empty()) r.sink = static_cast<double>(sinks_[static_cast<std::size_t>(h)]);
    if (options.dropout.probability > 0) {
      r.dropout = [this, b, h](Index i, Index j) {
        return posenc::dropout_factor(options.dropout, b, h, query_at(b, i), key_at(b, j));
      };
    }
    return r;
  }
  RuleOf rules() const {
    return [this](Index b, Index h) { return rule(b, h); };
  }

  /// True if key j is visible to query i in batch row b and head h, by the reference.
  bool sees(Index b, Index h, Index i, Index j) const {
    const Sequence s = sequence_of(b, i);
    if (j < s.first_key || j >= s.first_key + s.keys) return false;
    const reference::Band band{options.causal != posenc::Causal::No, options.window.left,
                               options.window.right};
    const bool by_position = options.causal == posenc::Causal::ByPosition;
    const double query = by_position ? query_at(b, i) : place_of(s, i);
    if (!band.shows(query, by_position ? key_at(b, j) : static_cast<double>(j))) return false;
    if (options.keep.data != nullptr && !keep.at(b, h, i, j)) return false;
    return options.masked.data == nullptr || !masked.at(b, h, i, j);
  }

  /// Returns the key index that query i of batch row b is aligned with, by the reference.
  double place(Index b, Index i) const { return place_of(sequence_of(b, i), i); }

  double query_at(Index b, Index i) const {
    return options.query_positions ? options.query_positions->at(b, i) : place(b, i);
  }
  double key_at(Index b, Index j) const {
    return options.key_positions ? options.key_positions->at(b, j) : static_cast<double>(j);
  }

  Mask<bool> keep{1, 1, 1, 1}, masked{1, 1, 1, 1};
  Mask<Real> additive{1, 1, 1, 1};

  bool one_in(Index n) { return random.integer(1, n) == 1; }

 private:
  /// Queries and keys of a batch row, or of a part of one, that may see each other.
  struct Sequence {
    Index first_query, queries, first_key, keys, start;
  };

  void draw_sequences(bool packed) {
    if (packed) {
      const Index count = random.integer(1, 4);
      cu_q_ = random_boundaries(count, c.shape.queries);
      cu_k_ = random_boundaries(count, c.shape.keys);
      options.cu_seqlens_q = cu_q_;
      options.cu_seqlens_k = cu_k_;
    } else if (one_in(3)) {
      for (Index b = 0; b < c.shape.batch; ++b) lengths_.push_back(random.integer(0, c.shape.keys));
      options.key_lengths = lengths_;
    }
  }

  std::vector<Index> random_boundaries(Index count, Index total) {
    std::vector<Index> all{0, total};
    while (static_cast<Index>(all.size()) <= count) all.push_back(random.integer(0, total));
    std::sort(all.begin(), all.end());
    return all;
  }

  void draw_places() {
    options.causal = static_cast<posenc::Causal>(1 + random.integer(0, 4));
    const auto extent = [&] {
      return one_in(3) ? -1 : random.integer(0, one_in(2) ? 3 : c.shape.keys);
    };
    const bool windowed = one_in(2);
    if (windowed) options.window = {.left = extent(), .right = extent()};
    const bool free_window = windowed && options.causal == posenc::Causal::No;
    if (options.causal == posenc::Causal::FromStart || (free_window && (!square() || one_in(2)))) {
      const Index sequences = cu_q_.empty() ? c.shape.batch : static_cast<Index>(cu_q_.size()) - 1;
      const Index count = one_in(2) ? 1 : sequences;
      for (Index n = 0; n < count; ++n) starts_.push_back(random.integer(-3, c.shape.keys));
      options.query_starts = starts_;
    }
  }

  bool square() const { return cu_q_ == cu_k_ && c.shape.queries == c.shape.keys; }

  template <class Element>
  Mask<Element> random_mask() {
    const auto extent = [this](Index full) { return one_in(2) ? full : 1; };
    return {extent(c.shape.batch), extent(c.shape.heads), extent(c.shape.queries),
            extent(c.shape.keys)};
  }

  void draw_masks() {
    if (one_in(3)) {
      keep = random_mask<bool>();
      keep.fill([&] { return !one_in(4); });
      options.keep = keep.view();
    }
    if (one_in(4)) {
      masked = random_mask<bool>();
      masked.fill([&] { return one_in(5); });
      options.masked = masked.view();
    }
    if (one_in(3)) {
      additive = random_mask<Real>();
      additive.fill([&] { return static_cast<Real>(one_in(6) ? -infinity : random.normal()); });
      options.additive = additive.view();
      roundings.additive = true;
    }
  }

  void draw_softcap() {
    if (!one_in(3)) return;
    options.softcap = random.uniform(0.5, 5);
    options.softcap_order =
        one_in(2) ? posenc::SoftcapOrder::BeforeBias : posenc::SoftcapOrder::AfterBias;
    roundings.softcap = true;
  }

  void draw_bias() {
    const Index kind = random.integer(0, 3);
    if (kind == 0) {
      symmetric_ = one_in(2);
      slopes_ = reference::alibi_slopes(c.shape.heads);
      bias.emplace(posenc::Alibi(
          {.heads = c.shape.heads,
           .form = symmetric_ ? posenc::AlibiForm::Symmetric : posenc::AlibiForm::Causal}));
    } else if (kind == 1) {
      table_ = Table(buckets, c.shape.heads);
      random.fill_normal(std::span(table_.data(), static_cast<std::size_t>(table_.size())));
      bias.emplace(posenc::T5Bias<float>(
          posenc::MatrixView<const float>{table_.data(), buckets, c.shape.heads, c.shape.heads},
          {.buckets = buckets,
           .max_distance = reach,
           .direction = posenc::T5Direction::Bidirectional}));
    }
    roundings.bias = bias.has_value();
  }

  /// Draws positions: implied ones if they are allowed, consecutive ones, or unsorted ones.
  void draw_positions() {
    const bool implied = options.causal == posenc::Causal::No
                             ? square() || !starts_.empty()
                             : options.causal != posenc::Causal::ByPosition;
    if (implied && one_in(2)) return;
    if (one_in(2)) {
      const Index start = random.integer(-5, 5);
      options.query_positions =
          posenc::Positions::range(start + random.integer(-3, c.shape.keys), c.shape.queries);
      options.key_positions = posenc::Positions::range(start, c.shape.keys);
      return;
    }
    const auto ids = [this](Index count) {
      std::vector<Index> all(static_cast<std::size_t>(c.shape.batch * count));
      for (Index& id : all) id = random.integer(-9, 9);
      return posenc::Positions::ids(c.shape.batch, all);
    };
    options.query_positions = ids(c.shape.queries);
    options.key_positions = ids(c.shape.keys);
  }

  void draw_temperature() {
    if (!one_in(4)) return;
    options.temperature = [](double position) { return 1 + 0.25 * std::sin(position); };
    options.temperature_of =
        static_cast<posenc::TemperatureOf>(1 + random.integer(0, options.softcap != 0 ? 2 : 1));
    roundings.temperature = true;
  }

  Sequence sequence_of(Index b, Index i) const {
    if (cu_q_.empty()) {
      const auto row = static_cast<std::size_t>(b);
      const Index start = starts_.empty() ? 0 : starts_[starts_.size() == 1 ? 0 : row];
      return {0, c.shape.queries, 0, lengths_.empty() ? c.shape.keys : lengths_[row], start};
    }
    const std::size_t n = reference::sequence_of(cu_q_, i);
    const Index start = starts_.empty() ? 0 : starts_[starts_.size() == 1 ? 0 : n];
    return {cu_q_[n], cu_q_[n + 1] - cu_q_[n], cu_k_[n], cu_k_[n + 1] - cu_k_[n], start};
  }

  double place_of(const Sequence& s, Index i) const {
    using reference::Alignment;
    const bool from_start =
        options.causal == posenc::Causal::FromStart || options.causal == posenc::Causal::No;
    const Alignment alignment = from_start ? Alignment::FromStart
                                : options.causal == posenc::Causal::BottomRight
                                    ? Alignment::BottomRight
                                    : Alignment::TopLeft;
    return static_cast<double>(s.first_key + i - s.first_query +
                               reference::aligned_key(alignment, s.queries, s.keys, s.start));
  }

  double bias_at(Index b, Index h, Index i, Index j) const {
    const double query = query_at(b, i), key = key_at(b, j);
    const auto head = static_cast<std::size_t>(h);
    if (!slopes_.empty()) {
      return reference::alibi_bias(
          slopes_[head], query, key,
          symmetric_ ? reference::AlibiForm::Symmetric : reference::AlibiForm::Causal);
    }
    return static_cast<double>(
        table_(reference::t5_bucket(static_cast<Index>(key - query), true, buckets, reach), h));
  }

  using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  static constexpr Index buckets = 16, reach = 40;

  std::vector<Index> cu_q_, cu_k_, lengths_, starts_;
  std::vector<Real> sinks_;
  std::vector<double> slopes_;
  Table table_;
  bool symmetric_ = false;
};

}  // namespace attention_test
