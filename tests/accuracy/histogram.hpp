// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace accuracy {

/// Errors of one function, type and range of inputs.
class Histogram {
 public:
  /// Upper ends of the classes of errors; the last class is open.
  static constexpr std::array<double, 8> ends{0.5, 1, 1.5, 2,
                                              2.5, 3, 4,   std::numeric_limits<double>::infinity()};

  /// Errors are given in `unit`; `promise` names the bound.
  Histogram(std::string name, std::string unit, std::string promise)
      : name_(std::move(name)), unit_(std::move(unit)), promise_(std::move(promise)) {}

  /// Counts an error, which is `share` of the bound. A NaN exceeds every bound.
  template <class Describe>
  void add(double error, double share, const Describe& input) {
    if (std::isnan(error) || std::isnan(share)) {
      error = share = std::numeric_limits<double>::infinity();
    }
    ++counts_[class_of(error)];
    if (share > share_ || inputs_ == 0) share_ = share, input_ = input();
    if (error > worst_) worst_ = error;
    ++inputs_;
  }

  /// Counts an error that is known to be between two numbers, unless they leave open its class or the
  /// worst error. Returns whether it was counted. A worst error below a quarter is an upper bound.
  template <class Describe>
  bool add_within(double least, double most, double largest_share, const Describe& input) {
    const bool is_decided = class_of(least) == class_of(most) && most <= std::max(worst_, 0.25) &&
                            largest_share <= std::max(share_, 0.1);
    if (is_decided) add(most, largest_share, input);
    return is_decided;
  }

  /// Adds the errors of another histogram of the same function.
  void merge(const Histogram& other) {
    for (std::size_t at = 0; at < counts_.size(); ++at) counts_[at] += other.counts_[at];
    if (other.inputs_ > 0 && (other.share_ > share_ || inputs_ == 0)) {
      share_ = other.share_, input_ = other.input_;
    }
    worst_ = std::max(worst_, other.worst_);
    inputs_ += other.inputs_;
  }

  const std::string& name() const { return name_; }
  const std::string& unit() const { return unit_; }
  const std::string& promise() const { return promise_; }
  const std::string& worst_input() const { return input_; }
  const std::array<long long, ends.size()>& counts() const { return counts_; }
  long long inputs() const { return inputs_; }
  double worst() const { return worst_; }
  double share() const { return share_; }

 private:
  /// Returns the class of an error; that of a NaN is the first.
  static std::size_t class_of(double error) {
    std::size_t at = 0;
    while (error > ends[at]) ++at;
    return at;
  }

  std::string name_, unit_, promise_, input_;
  std::array<long long, ends.size()> counts_{};
  long long inputs_ = 0;
  double worst_ = 0, share_ = 0;
};

/// Returns numbers as "%a", with spaces between them.
template <class... Numbers>
std::string hexadecimal(Numbers... numbers) {
  std::string text;
  const auto append = [&](double x) {
    char buffer[40];
    std::snprintf(buffer, sizeof(buffer), text.empty() ? "%a" : " %a", x);
    text += buffer;
  };
  (append(static_cast<double>(numbers)), ...);
  return text;
}

}  // namespace accuracy
