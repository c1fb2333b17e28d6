// SPDX-License-Identifier: MIT
// Every rule under settings that no model has gives a ConfigError, or frequencies and a factor that
// are finite and not negative.
#include "accuracy/bound.hpp"
#include "frequency/random_rules.hpp"

#include <optional>
#include <tuple>

namespace accuracy {
namespace {

using posenc::Index;

/// Settings are computed from numbers within +-1. A magnitude may be any double, sometimes 0.
const Range wild = {-1, 1};
double wild_positive(double x) {
  return std::abs(x) < 1e-3 ? 0 : std::exp2(2098 * std::abs(x) - 1074);
}
double wild_number(double x) { return std::copysign(wild_positive(x), x); }
Index wild_index(double x) {
  return static_cast<Index>(std::exp2(62.9 * std::abs(x))) * (x < 0 ? -1 : 1);
}

// Bases and factors are not negative, because negative ones are rejected before anything is
// computed.
void set(double& field, const std::string& name, double x) {
  field = name == "base" || name == "factor" ? wild_positive(x) : wild_number(x);
}
void set(Index& field, const std::string& name, double x) {
  // Few pairs, as many as the lists have.
  field = name == "rotary_dim" || name == "head_dim" ? (x < 0 ? 4 : 32) : wild_index(x);
}
void set(bool& field, const std::string&, double x) { field = x > 0; }
void set(posenc::YarnCrossing& field, const std::string&, double x) {
  field = x > 0 ? posenc::YarnCrossing::Step : posenc::YarnCrossing::Backwards;
}
void set(std::vector<double>& field, const std::string&, double x) {
  field = {wild_positive(x), wild_number(1 - std::abs(x))};
}
template <class T>
void set(std::optional<T>& field, const std::string& name, double x) {
  if (std::abs(x) < 0.3) return;
  set(field.emplace(), name, x);
}

template <class Rule>
std::size_t field_count() {
  std::size_t count = 0;
  Rule rule;
  for_each_field(rule, [&](const char*, const auto&) { ++count; });
  return count;
}

template <class Rule>
double share_of_settings(const Point& p) {
  Rule rule;
  std::size_t next = 0;
  for_each_field(rule, [&](const std::string& name, auto& field) { set(field, name, p[next++]); });
  const posenc::Frequencies made = random_rules::evaluate(rule, wild_index(p[next]));
  bool sound = std::isfinite(made.attention_factor()) && made.attention_factor() > 0;
  for (const posenc::detail::DoubleDouble& w : posenc::detail::exact_inv_freq(made)) {
    sound = sound && std::isfinite(w.hi) && std::isfinite(w.lo) && w.hi >= 0;
  }
  constexpr double beyond = 2;
  return sound ? 0 : beyond;
}

template <class... Rules>
std::vector<Bound> of_all(std::type_identity<std::tuple<Rules...>>) {
  return {{posenc::RuleDescription<Rules>::name + std::string(", wild settings"),
           std::vector<Range>(field_count<Rules>() + 1, wild), share_of_settings<Rules>}...};
}

}  // namespace

std::vector<Bound> wild_settings() { return of_all(std::type_identity<random_rules::All>()); }

}  // namespace accuracy
