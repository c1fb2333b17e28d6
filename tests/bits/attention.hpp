// SPDX-License-Identifier: MIT
#pragma once

#include "sample.hpp"
#include "seeded.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/bias/alibi.hpp>

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace bits {

/// Extents of a call.
struct Shape {
  const char* name;
  Index batch, heads, kv_heads, queries, keys, dim, value_dim;
};

/// Bias of the tests or of the library in one type, so that attention is compiled once.
struct AnyBias {
  std::variant<Slope, posenc::Alibi> bias;

  template <class Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
    std::visit([&](const auto& b) { b.add(head, query_positions, key_positions, tile); }, bias);
  }
};

/// Call of attention() with data and options from a seed, and the memory that its options refer to.
template <class T>
class Call {
 public:
  using Real = posenc::Compute<T>;

  Call(const Shape& extents, std::uint64_t seed)
      : shape(extents),
        random(seed),
        q(shape.batch, shape.queries, shape.heads, shape.dim, random),
        k(shape.batch, shape.keys, shape.kv_heads, shape.dim, random),
        v(shape.batch, shape.keys, shape.kv_heads, shape.value_dim, random),
        out(shape.batch, shape.queries, shape.heads, shape.value_dim),
        lse_(static_cast<std::size_t>(shape.batch * shape.heads * shape.queries)) {
    options.scale = 0.4;
    options.causal = posenc::Causal::BottomRight;
    memory.lse = {lse_.data(),
                  shape.batch,
                  shape.heads,
                  shape.queries,
                  shape.heads * shape.queries,
                  shape.queries,
                  1};
  }
  Call(const Call&) = delete;  // options and memory refer to members
  Call& operator=(const Call&) = delete;

  void lengths() {
    for (Index b = 0; b < shape.batch; ++b)
      lengths_.push_back(shape.keys - random.below(shape.keys / 2));
    options.key_lengths = lengths_;
  }
  void starts() {
    for (Index b = 0; b < shape.batch; ++b) starts_.push_back(random.below(shape.keys) - 2);
    options.query_starts = starts_;
  }
  void keep(Index batch, Index heads, Index queries) {
    keep_ = Scores<unsigned char>(batch, heads, queries, shape.keys);
    for (auto& cell : keep_.values) cell = random.below(4) != 0 ? 1 : 0;
    // A contiguous range of masked keys, so that blocks and tiles are skipped.
    for (std::size_t n = 0; n < keep_.values.size(); ++n) {
      if (static_cast<Index>(n) % shape.keys / 40 == 1) keep_.values[n] = 0;
    }
    options.keep = keep_.mask();
  }
  void masked() {
    masked_ = Scores<unsigned char>(shape.batch, 1, 1, shape.keys);
    for (auto& cell : masked_.values) cell = random.below(5) == 0 ? 1 : 0;
    options.masked = masked_.mask();
  }
  void additive(Index heads) {
    additive_ = Scores<Real>(1, heads, shape.queries, shape.keys);
    for (auto& cell : additive_.values) {
      cell = random.below(6) == 0 ? -std::numeric_limits<Real>::infinity()
                                  : static_cast<Real>(random.number());
    }
    options.additive = additive_.view();
  }
  void softcap(posenc::SoftcapOrder order) {
    options.softcap = 1.5;
    options.softcap_order = order;
  }
  void sinks() {
    for (Index h = 0; h < shape.heads; ++h) sinks_.push_back(static_cast<Real>(random.number()));
    options.sinks = sinks_;
  }
  void dropout() { options.dropout = {0.3, 77}; }
  /// Sets positions of queries and keys; those of the keys are sorted or not.
  void positions(bool ordered) {
    std::vector<double> of_q, of_k;
    for (Index n = 0; n < shape.queries; ++n)
      of_q.push_back(static_cast<double>(shape.keys / 2 + n));
    for (Index n = 0; n < shape.keys; ++n) {
      of_k.push_back(ordered ? static_cast<double>(n)
                             : static_cast<double>(random.below(shape.keys)));
    }
    options.query_positions = posenc::Positions::real(of_q);
    options.key_positions = posenc::Positions::real(of_k);
  }
  /// Packs three sequences into the one batch row.
  void packed() {
    cu_q_ = {0, shape.queries / 3, shape.queries / 2, shape.queries};
    cu_k_ = {0, shape.keys / 4, shape.keys / 2, shape.keys};
    options.cu_seqlens_q = cu_q_;
    options.cu_seqlens_k = cu_k_;
  }
  void weights(posenc::ReturnedScores stage) {
    weights_ = Scores<Real>(shape.batch, shape.heads, shape.queries, shape.keys);
    memory.weights = weights_.view();
    memory.returned = stage;
  }
  /// Sets the value of one key in its middle channel.
  void put(Index key, double number) {
    const auto at =
        static_cast<std::size_t>((key * shape.kv_heads) * shape.value_dim + shape.value_dim / 2);
    v.values[at] = static_cast<T>(static_cast<float>(number));
  }
  void slope() { bias = std::make_unique<AnyBias>(AnyBias{Slope{}}); }
  void alibi() {
    bias = std::make_unique<AnyBias>(
        AnyBias{posenc::Alibi({.heads = shape.heads, .form = posenc::AlibiForm::Symmetric})});
  }

  void add_results(Hash& hash) const {
    hash.add(out.values);
    hash.add(lse_);
    hash.add(weights_.values);
  }

  Shape shape;
  Random random;
  Heads<T> q, k, v, out;
  posenc::AttentionOptions<T> options;
  posenc::AttentionMemory<T> memory;
  std::unique_ptr<AnyBias> bias;

 private:
  std::vector<Real> lse_, sinks_;
  std::vector<Index> lengths_, starts_, cu_q_, cu_k_;
  Scores<unsigned char> keep_{0, 0, 0, 0}, masked_{0, 0, 0, 0};
  Scores<Real> additive_{0, 0, 0, 0}, weights_{0, 0, 0, 0};
};

/// Function that sets a call's options.
template <class T>
using Fill = std::pair<const char*, void (*)(Call<T>&)>;

template <class T>
const std::vector<Fill<T>>& option_sets() {
  using posenc::Causal;
  using posenc::ReturnedScores;
  using posenc::SoftcapOrder;
  using C = Call<T>;
  static const std::vector<Fill<T>> all{
      {"every_key", [](C& c) { c.options.causal = Causal::No; }},
      {"top_left", [](C& c) { c.options.causal = Causal::TopLeft; }},
      {"bottom_right", [](C&) {}},
      {"from_start",
       [](C& c) {
         c.options.causal = Causal::FromStart;
         c.starts();
       }},
      {"window", [](C& c) { c.options.window = {.left = 60, .right = -1}; }},
      {"window_both",
       [](C& c) {
         c.options.causal = Causal::No;
         c.options.window = {.left = 9, .right = 70};
         c.starts();
       }},
      {"lengths",
       [](C& c) {
         c.options.causal = Causal::No;
         c.lengths();
       }},
      {"keep", [](C& c) { c.keep(c.shape.batch, c.shape.heads, c.shape.queries); }},
      {"keep_of_rows",
       [](C& c) {
         c.options.causal = Causal::No;
         c.keep(c.shape.batch, 1, 1);
       }},
      {"masks",
       [](C& c) {
         c.keep(1, 1, c.shape.queries);
         c.masked();
         c.additive(c.shape.heads);
       }},
      {"additive", [](C& c) { c.additive(1); }},
      {"softcap", [](C& c) { c.softcap(SoftcapOrder::BeforeBias); }},
      {"sinks", [](C& c) { c.sinks(); }},
      {"dropout", [](C& c) { c.dropout(); }},
      {"slope", [](C& c) { c.slope(); }},
      {"alibi", [](C& c) { c.alibi(); }},
      {"alibi_positions",
       [](C& c) {
         c.alibi();
         c.positions(false);
       }},
      {"by_position",
       [](C& c) {
         c.options.causal = Causal::ByPosition;
         c.options.window = {.left = 50, .right = -1};
         c.positions(true);
       }},
      {"by_position_in_no_order",
       [](C& c) {
         c.options.causal = Causal::ByPosition;
         c.positions(false);
       }},
      {"scaled",
       [](C& c) {
         c.weights(ReturnedScores::Scaled);
         c.keep(1, 1, c.shape.queries);
       }},
      {"capped",
       [](C& c) {
         c.weights(ReturnedScores::Capped);
         c.softcap(SoftcapOrder::BeforeBias);
         c.slope();
       }},
      {"masked_scores",
       [](C& c) {
         c.weights(ReturnedScores::Masked);
         c.additive(1);
         c.slope();
       }},
      {"probabilities",
       [](C& c) {
         c.weights(ReturnedScores::Probabilities);
         c.dropout();
         c.sinks();
       }},
      {"hidden_nan",
       [](C& c) {
         c.put(2, std::numeric_limits<double>::quiet_NaN());
         c.options.window = {.left = 1, .right = -1};
       }},
      {"seen_infinity",
       [](C& c) {
         c.options.causal = Causal::No;
         c.put(3, std::numeric_limits<double>::infinity());
         c.masked();
       }},
      {"all",
       [](C& c) {
         c.options.window = {.left = 100, .right = -1};
         c.keep(1, c.shape.heads, 1);
         c.additive(c.shape.heads);
         c.softcap(SoftcapOrder::AfterBias);
         c.sinks();
         c.dropout();
         c.slope();
       }},
  };
  return all;
}

template <class T>
void run(Call<T>& c) {
  if (c.bias) {
    posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.options, *c.bias,
                      c.memory, Threads{});
  } else {
    posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(), c.options, {}, c.memory,
                      Threads{});
  }
}

/// Element types of the calls, in the order of the record.
enum class Type { Float, Double, Half, Bfloat16 };

/// True if a set of options has a case of the type. Float has a case of every set, double of every
/// second set, and both 16-bit types of the other sets.
constexpr bool has_options(Type type, std::size_t set) {
  return type == Type::Float || (set % 2 == 0) == (type == Type::Double);
}

/// Runs every set of options on one shape, another one for each type.
template <class T>
void report_calls(const std::string& name_of_type, Type type) {
  const std::vector<Shape> shapes{
      {"small", 2, 4, 2, 5, 7, 16, 16},       {"odd", 2, 6, 2, 37, 300, 19, 21},
      {"square", 1, 8, 2, 150, 150, 64, 32},  {"decode", 3, 8, 2, 1, 500, 32, 48},
      {"ungrouped", 1, 3, 3, 33, 391, 40, 8}, {"long", 1, 1, 1, 300, 260, 9, 16},
  };
  const auto report_call = [&](const Shape& shape, const std::string& set, std::uint64_t seed,
                               void (*fill)(Call<T>&), bool packed) {
    Call<T> c(shape, seed);
    fill(c);
    if (packed) c.packed();
    run(c);
    Hash hash;
    c.add_results(hash);
    report("attention/" + name_of_type + "/" + shape.name + (packed ? "/packed_" : "/") + set,
           hash);
  };
  const auto offset = static_cast<std::size_t>(type);
  std::uint64_t seed = 0;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const auto is_of_shape = [&](std::size_t set) {
      return has_options(type, set) && (set + offset) % shapes.size() == s;
    };
    const auto& sets = option_sets<T>();
    for (std::size_t set = 0; set < sets.size(); ++set) {
      ++seed;
      if (is_of_shape(set)) report_call(shapes[s], sets[set].first, seed, sets[set].second, false);
    }
    if (shapes[s].batch != 1) continue;
    for (const auto& [set, fill] : sets) {
      const std::string name = set;
      if (name != "every_key" && name != "window" && name != "all" && name != "alibi") continue;
      ++seed;
      if (seed % 4 == offset) report_call(shapes[s], name, seed, fill, true);
    }
  }
  // Tiles of keys are distributed over threads.
  Call<T> c({"split", 1, 4, 2, 3, 900, 24, 24}, ++seed);
  c.slope();
  c.sinks();
  run(c);
  Hash hash;
  c.add_results(hash);
  report("attention/" + name_of_type + "/split/slope", hash);
}

}  // namespace bits
