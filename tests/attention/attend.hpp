// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <concepts>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

namespace attention_test {

using posenc::Index;

/// ALiBi or T5's bias in one type, so that attention() is compiled once.
class AnyBias {
 public:
  explicit AnyBias(posenc::Alibi alibi) : bias_(std::move(alibi)) {}
  explicit AnyBias(posenc::T5Bias<float> t5) : bias_(std::move(t5)) {}

  template <std::floating_point Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
    std::visit([&](const auto& bias) { bias.add(head, query_positions, key_positions, tile); },
               bias_);
  }

 private:
  std::variant<posenc::Alibi, posenc::T5Bias<float>> bias_;
};

/// Calls attention() with or without a bias; compiled in attend.cpp for all tests.
template <posenc::Scalar T>
void attend(posenc::HeadsView<const std::type_identity_t<T>> q,
            posenc::HeadsView<const std::type_identity_t<T>> k,
            posenc::HeadsView<const std::type_identity_t<T>> v, posenc::HeadsView<T> out,
            const posenc::AttentionOptions<std::type_identity_t<T>>& options =
                {.causal = posenc::Causal::No},
            const AnyBias* bias = nullptr,
            const posenc::AttentionMemory<std::type_identity_t<T>>& memory = {});

}  // namespace attention_test
