// SPDX-License-Identifier: MIT
// Tests the temperature of a query: the stage that it multiplies, and the position that it depends
// on.
#include "attention_case.hpp"
#include "reference/alibi.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <cmath>
#include <functional>

namespace attention_temperature_test {

using attention_test::Case;
using attention_test::plain_rule;
using attention_test::worst_error;
using posenc::Alibi;
using posenc::AlibiForm;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::ConfigError;
using posenc::Index;
using posenc::Positions;
using posenc::SoftcapOrder;
using posenc::TemperatureOf;
using support::message_of;

namespace {

double rising(double position) { return 1 + 0.3 * std::log1p(std::floor(position / 3)); }

/// Returns a power of two, so that products are exact.
double doubling(double position) { return std::ldexp(1.0, static_cast<int>(position) % 3); }

/// Multiplies each query by doubling(), which gives the scores of that temperature.
template <class T>
void multiply_queries(Case<T>& c) {
  for (Index b = 0; b < c.shape.batch; ++b) {
    for (Index i = 0; i < c.shape.queries; ++i) {
      for (Index h = 0; h < c.shape.heads; ++h) {
        T* const row = c.q.view().row(b, i, h);
        for (Index d = 0; d < c.shape.dim; ++d) {
          row[d] = static_cast<T>(static_cast<double>(row[d]) * doubling(static_cast<double>(i)));
        }
      }
    }
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("temperature: multiplies scores or queries as named", "[attention][scores]",
                        attention_test::Scalars) {
  using T = TestType;
  Case<T> c({2, 4, 2, 9, 9}, 1);
  const Alibi alibi({.heads = 4, .form = AlibiForm::Symmetric});
  for (const auto of :
       {TemperatureOf::ScaledScores, TemperatureOf::BiasedScores, TemperatureOf::CappedScores}) {
    for (const auto order : {SoftcapOrder::BeforeBias, SoftcapOrder::AfterBias}) {
      CAPTURE(static_cast<int>(of), static_cast<int>(order));
      const auto rules = [&, plain = plain_rule(c), slopes = reference::alibi_slopes(4)](Index b,
                                                                                         Index h) {
        auto rule = plain(b, h);
        rule.softcap = 1.5;
        rule.softcap_order = order == SoftcapOrder::AfterBias ? reference::SoftcapOrder::AfterBias
                                                              : reference::SoftcapOrder::BeforeBias;
        rule.temperature = [](Index i) { return rising(static_cast<double>(i)); };
        rule.temperature_of = static_cast<reference::TemperatureOf>(static_cast<int>(of) - 1);
        rule.bias = [slope = slopes[static_cast<std::size_t>(h)]](Index i, Index j) {
          return reference::alibi_bias(slope, static_cast<double>(i), static_cast<double>(j),
                                       reference::AlibiForm::Symmetric);
        };
        return rule;
      };
      c.run({.causal = Causal::No,
             .softcap = 1.5,
             .softcap_order = order,
             .temperature = rising,
             .temperature_of = of},
            alibi);
      CHECK(worst_error(c, rules, {.softcap = true, .bias = true, .temperature = true}) <= 1);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("temperature: of scaled scores equals that of queries",
                        "[attention][scores]", attention_test::Scalars) {
  using T = TestType;
  Case<T> c({1, 4, 2, 150, 150, 20, 9}, 2), multiplied({1, 4, 2, 150, 150, 20, 9}, 2);
  multiply_queries(multiplied);
  const Alibi alibi({.heads = 4, .form = AlibiForm::Causal});
  c.run({.causal = Causal::TopLeft,
         .temperature = doubling,
         .temperature_of = TemperatureOf::ScaledScores},
        alibi);
  multiplied.run({.causal = Causal::TopLeft}, alibi);
  CHECK(support::same_bits(c.out.view(), multiplied.out.view()));

  // Without a bias, biased scores are scaled scores.
  c.run({.causal = Causal::TopLeft,
         .temperature = doubling,
         .temperature_of = TemperatureOf::BiasedScores});
  multiplied.run({.causal = Causal::TopLeft});
  CHECK(support::same_bits(c.out.view(), multiplied.out.view()));
}

TEST_CASE("temperature: is a function of the query's position", "[attention][scores]") {
  constexpr Index tokens = 140;
  Case<float> c({1, 2, 2, tokens, tokens, 8, 8}, 3);
  const AttentionOptions<float> options{.causal = Causal::BottomRight,
                                        .temperature = rising,
                                        .temperature_of = TemperatureOf::ScaledScores};
  c.run(options);

  posenc::KvCache<float> cache({.sequences = 1, .kv_heads = 2, .head_dim = 8, .capacity = tokens});
  support::Heads<float> out(1, 1, 2, 8);
  for (Index i = 0; i < tokens; ++i) {
    cache.append(0, posenc::slice_seq(c.k.view(), i, 1), posenc::slice_seq(c.v.view(), i, 1));
    posenc::attention(posenc::slice_seq(c.q.view(), i, 1), cache, {0}, out.view(), options);
    REQUIRE(support::same_bits(out.view(), posenc::slice_seq(c.out.view(), i, 1)));
  }

  // Explicit positions: all queries are at 0, where the temperature is 1.
  Case<float> plain({1, 2, 2, tokens, tokens, 8, 8}, 3);
  plain.run({.causal = Causal::BottomRight});
  c.run({.causal = Causal::BottomRight,
         .temperature = rising,
         .temperature_of = TemperatureOf::ScaledScores,
         .query_positions = Positions::ids(std::vector<Index>(tokens, 0)),
         .key_positions = Positions::range(0, tokens)});
  CHECK(support::same_bits(c.out.view(), plain.out.view()));
}

TEST_CASE("temperature: rejected where its position is unknown", "[attention][errors]") {
  Case<float> c({1, 1, 1, 2, 3}, 4);
  const auto refuse = [&](const AttentionOptions<float>& options) {
    return message_of<ConfigError>([&] { c.run(options); });
  };
  const std::string name = "posenc::attention: ";
  CHECK(refuse({.causal = Causal::TopLeft, .temperature = rising}) ==
        name + "temperature and temperature_of must be set together");
  CHECK(refuse({.causal = Causal::TopLeft, .temperature_of = TemperatureOf::BiasedScores}) ==
        name + "temperature and temperature_of must be set together");
  CHECK(refuse({.causal = Causal::TopLeft,
                .temperature = rising,
                .temperature_of = TemperatureOf::CappedScores}) ==
        name + "TemperatureOf::CappedScores needs a softcap");
  CHECK(refuse({.causal = Causal::No,
                .temperature = rising,
                .temperature_of = TemperatureOf::ScaledScores}) ==
        name +
            "temperature requires query_positions or query_starts for 2 queries and 3 keys without "
            "a causal alignment");
}

}  // namespace attention_temperature_test
