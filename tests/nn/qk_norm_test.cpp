// SPDX-License-Identifier: MIT
// MultiHeadAttention with a norm of queries and keys: against the reference, over caches, on
// devices, its gradients, and its errors.
#define EIGEN_USE_THREADS
#include "module_gradients.hpp"
#include "reference/rms_norm.hpp"
#include "support/catch.hpp"
#include "support/devices.hpp"
#include "support/throws.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace qk_norm_test {

using module_test::Embeddings;
using module_test::same_bits;
using posenc::bsd;
using posenc::Causal;
using posenc::ConfigError;
using posenc::FixedOrderLinear;
using posenc::Index;
using posenc::Linear;
using posenc::MultiHeadAttention;
using posenc::MultiHeadAttentionConfig;
using posenc::MultiHeadTape;
using posenc::Positions;
using posenc::QkNorm;
using posenc::QkNormOver;
using posenc::QkNormWeight;
using posenc::ShapeError;
using support::message_of;

namespace {

using Rope = posenc::Rope<posenc::HalfRotate>;

constexpr Index dim = 12, heads = 4, kv_heads = 2, head_dim = 6, value_dim = 5;

constexpr MultiHeadAttentionConfig config_with(const QkNorm& norm) {
  return {.model_dim = dim,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .value_dim = value_dim,
          .qk_norm = norm};
}

constexpr QkNorm of_heads{
    .over = QkNormOver::Head, .weight = QkNormWeight::Factor, .epsilon = 1e-6};
constexpr QkNorm of_heads_minus_one{
    .over = QkNormOver::Head, .weight = QkNormWeight::FactorMinusOne, .epsilon = 1e-6};
constexpr QkNorm of_all{
    .over = QkNormOver::AllHeads, .weight = QkNormWeight::Factor, .epsilon = 1e-5};
constexpr QkNorm of_all_minus_one{
    .over = QkNormOver::AllHeads, .weight = QkNormWeight::FactorMinusOne, .epsilon = 0.25};
constexpr QkNorm all_norms[] = {of_heads, of_heads_minus_one, of_all, of_all_minus_one};

Rope rope() { return Rope(posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.37, 0.1})); }

/// Returns a module whose weights are exact in float and whose norms differ from the identity.
template <class Layer, class Rotary = Rope>
auto make_module(const QkNorm& norm, const Rotary& rotary = rope()) {
  using T = typename Layer::Scalar;
  MultiHeadAttention<T, Rotary, posenc::NoBias, Layer> module(config_with(norm), rotary);
  module_test::set_exact(module, 1);
  support::Random random(2);
  for (auto* weight : {&module.query_norm, &module.key_norm}) {
    for (Index n = 0; n < weight->size(); ++n) {
      weight->data()[n] = module_test::exact_number<T>(random, 0.125, 12);
    }
  }
  return module;
}

template <class T>
std::vector<double> factors(const posenc::ParameterMatrix<T>& weight, const QkNorm& norm) {
  std::vector<double> all;
  for (Index n = 0; n < weight.size(); ++n) {
    const double offset = norm.weight == QkNormWeight::FactorMinusOne ? 1 : 0;
    all.push_back(static_cast<double>(weight(n)) + offset);
  }
  return all;
}

template <class Module, class T>
Embeddings<T> at_once(const Module& module, const Embeddings<T>& x) {
  Embeddings<T> out(x.dimension(0), x.dimension(1), dim);
  module.forward(bsd(x), Positions::range(0, x.dimension(1)), bsd(out),
                 {.causal = Causal::BottomRight});
  return out;
}

template <class T>
Embeddings<T> random_tokens(Index batch, Index seq, std::uint64_t seed = 3) {
  support::Random random(seed);
  return module_test::random_embeddings<T>(random, batch, seq, dim);
}

}  // namespace

TEMPLATE_TEST_CASE("qk_norm: a module with a norm of queries and keys equals the reference",
                   "[mha][norm]", float, double) {
  using T = TestType;
  for (const QkNorm& norm : all_norms) {
    INFO(static_cast<int>(norm.over) << ", " << static_cast<int>(norm.weight));
    const auto module = make_module<Linear<T>>(norm);
    const auto x = random_tokens<T>(2, 5), keys = random_tokens<T>(2, 6, 4);
    Embeddings<T> out(2, 5, dim);
    module.forward(bsd(x), Positions::range(3, 5), bsd(keys), bsd(keys), Positions::range(1, 6),
                   bsd(out), {.causal = Causal::ByPosition});

    auto reference = module_test::reference_of(module);
    const auto normalise = [&](const posenc::ParameterMatrix<T>& weight) {
      return [factor = factors(weight, norm), epsilon = norm.epsilon](const reference::Matrix& q) {
        return reference::rms_norm(q, factor, epsilon);
      };
    };
    reference.normalise_query = normalise(module.query_norm);
    reference.normalise_key = normalise(module.key_norm);
    const std::vector<long double> w{1, static_cast<long double>(0.37),
                                     static_cast<long double>(0.1)};
    const reference::RopeRule half{reference::Pairing::HalfRotate};
    reference.rotate_query = module_test::rotate_from(3, w, half);
    reference.rotate_key = module_test::rotate_from(1, w, half);
    const auto rule = [](Index) {
      reference::AttentionRule result;
      result.scale = 1 / std::sqrt(static_cast<double>(head_dim));
      result.allowed = [](Index i, Index j) { return j <= i + 2; };
      return result;
    };
    CHECK(module_test::worst_error(reference, x, keys, keys, out, rule) <= 1);
    // A norm of the other extent is no rounding error.
    reference.normalise_query = {};
    CHECK(module_test::worst_error(reference, x, keys, keys, out, rule) > 1);
  }
}

TEMPLATE_TEST_CASE("qk_norm: weights that lack 1 give the bits of the factors themselves",
                   "[mha][norm]", float, double) {
  using T = TestType;
  const auto x = random_tokens<T>(2, 5);
  for (const auto over : {QkNormOver::Head, QkNormOver::AllHeads}) {
    auto module = make_module<Linear<T>>({over, QkNormWeight::Factor, 1e-6});
    auto minus_one = make_module<Linear<T>>({over, QkNormWeight::FactorMinusOne, 1e-6});
    for (auto member : {&decltype(module)::query_norm, &decltype(module)::key_norm}) {
      for (Index n = 0; n < (module.*member).size(); ++n) {
        (minus_one.*member)(n) = (module.*member)(n)-1;
      }
    }
    const auto want = at_once(module, x);
    CHECK(same_bits(at_once(minus_one, x), want));
    // randomize() sets the factors to 1.
    module.randomize(1);
    minus_one.randomize(1);
    for (Index n = 0; n < module.query_norm.size(); ++n) {
      CHECK(module.query_norm(n) == 1);
      CHECK(minus_one.query_norm(n) == 0);
    }
    CHECK(same_bits(at_once(minus_one, x), at_once(module, x)));
    CHECK_FALSE(same_bits(at_once(module, x), want));
  }
}

TEMPLATE_TEST_CASE("qk_norm: normalised queries and keys do not depend on the size of projections",
                   "[mha][norm]", float, double) {
  using T = TestType;
  const auto x = random_tokens<T>(2, 5);
  for (QkNorm norm : {of_heads, of_all}) {
    norm.epsilon = 1e-40;  // vanishes beside the mean square
    auto module = make_module<FixedOrderLinear<T>>(norm);
    const auto want = at_once(module, x);
    const auto scale_by = [&](T factor) {
      for (auto* layer : {&module.query_projection, &module.key_projection}) {
        for (auto* matrix : {&layer->weight, &layer->bias}) {
          for (Index n = 0; n < matrix->size(); ++n) matrix->data()[n] *= factor;
        }
      }
    };
    scale_by(8);  // exact
    CHECK(same_bits(at_once(module, x), want));
    scale_by(T{1.25});  // 10 in total
    const auto ten = at_once(module, x);
    for (Index n = 0; n < ten.size(); ++n) {
      CHECK(ten.data()[n] == Approx(want.data()[n]).epsilon(1e-4).margin(1e-4));
    }
  }
}

TEMPLATE_TEST_CASE("qk_norm: decoding with a norm is bit-identical to one call",
                   "[mha][norm][cache][bits]", FixedOrderLinear<float>, FixedOrderLinear<double>) {
  using T = typename TestType::Scalar;
  constexpr Index length = 20;
  const auto x = random_tokens<T>(1, length);
  for (const QkNorm& norm : all_norms) {
    const auto module = make_module<TestType>(norm);
    const auto want = at_once(module, x);
    const auto in_chunks = [&]<class S>(Index chunk, S) {
      posenc::KvCache<S> cache(
          {.kv_heads = kv_heads, .head_dim = head_dim, .value_dim = value_dim, .capacity = length});
      Embeddings<T> out(1, length, dim);
      posenc::MultiHeadWorkspace workspace;
      for (Index first = 0; first < length; first += chunk) {
        const Index count = std::min(chunk, length - first);
        module.forward(posenc::slice_seq(bsd(x), first, count), Positions::range(first, count),
                       cache, {0}, posenc::slice_seq(bsd(out), first, count),
                       {.causal = Causal::BottomRight}, {.workspace = &workspace});
      }
      return out;
    };
    for (const Index chunk : {Index{1}, Index{7}, length}) {
      INFO(chunk << " tokens at a time");
      CHECK(same_bits(in_chunks(chunk, T{}), want));
      if constexpr (std::is_same_v<T, float>) {
        CHECK(same_bits(in_chunks(chunk, Eigen::bfloat16{}), in_chunks(length, Eigen::bfloat16{})));
        CHECK(same_bits(in_chunks(chunk, Eigen::half{}), in_chunks(length, Eigen::half{})));
      }
    }
  }
}

TEST_CASE("qk_norm: cached keys are normalised", "[mha][norm][cache]") {
  auto module = make_module<FixedOrderLinear<double>>(of_heads, rope());
  module.key_norm.fill(1);
  posenc::KvCache<double> cache(
      {.kv_heads = kv_heads, .head_dim = head_dim, .value_dim = value_dim, .capacity = 8});
  const auto x = random_tokens<double>(1, 3);
  Embeddings<double> out(1, 3, dim);
  module.forward(bsd(x), Positions::range(0, 3), cache, {0}, bsd(out),
                 {.causal = Causal::BottomRight});
  support::Heads<double> keys(1, 3, kv_heads, head_dim), values(1, 3, kv_heads, value_dim);
  cache.copy_keys(0, 0, keys.view(), values.view());
  const auto key = keys.view();
  for (Index s = 0; s < 3; ++s) {
    for (Index h = 0; h < kv_heads; ++h) {
      double sum = 0;
      for (Index d = 0; d < head_dim; ++d) sum += std::pow(key.row(0, s, h)[d], 2);
      CHECK(sum == Approx(head_dim).epsilon(1e-5));
    }
  }
}

TEST_CASE("qk_norm: gradients of modules with a norm equal slopes", "[mha][norm][backward]") {
  std::vector<double> inv_freq{1, 0.37, 0.1};
  for (const QkNorm& norm : all_norms) {
    INFO(static_cast<int>(norm.over) << ", " << static_cast<int>(norm.weight));
    MultiHeadAttentionConfig config = config_with(norm);
    config.model_dim = 5;
    config.key_input_dim = 4;
    for (const bool is_self : {false, true}) {
      if (is_self) config.key_input_dim = 5;
      const auto make = [&] {
        return MultiHeadAttention<double, Rope>(config,
                                                Rope(posenc::Frequencies::from_inv_freq(inv_freq)));
      };
      module_test::Training training(make, {.queries = 2, .keys = 3}, is_self);
      auto gradients = training.module.zero_gradients();
      gradients.rotary = training.module.rotary().zero_frequency_gradient();
      REQUIRE(gradients.query_norm.size() == training.module.query_norm.size());
      REQUIRE(gradients.query_norm.size() > 0);
      training.check_all(gradients);
      training.check("frequencies", inv_freq.data(), gradients.rotary.data(), 3);
    }
  }
}

TEMPLATE_TEST_CASE("qk_norm: a tape with a norm changes no bit, and gradients may be omitted",
                   "[mha][norm][backward][tape]", float, double) {
  using T = TestType;
  const auto module = make_module<Linear<T>>(of_heads);
  const auto x = random_tokens<T>(2, 5), grad_out = random_tokens<T>(2, 5, 5);
  MultiHeadTape<T> tape;
  Embeddings<T> out(2, 5, dim), grad_x(2, 5, dim), again(2, 5, dim);
  module.forward(bsd(x), Positions::range(0, 5), bsd(out), tape, {.causal = Causal::BottomRight});
  CHECK(same_bits(out, at_once(module, x)));
  // Documented memory, with a cache line per tensor.
  const auto numbers = static_cast<std::size_t>(10 * (dim + heads * (head_dim + value_dim + 1) +
                                                      kv_heads * (head_dim + value_dim) +
                                                      (heads + kv_heads) * head_dim));
  CHECK(tape.bytes() >= numbers * sizeof(T));
  CHECK(tape.bytes() <= numbers * sizeof(T) + 8 * 64);

  auto all = module.zero_gradients(), some = all;
  module.backward(tape, bsd(grad_out), bsd(grad_x), all);
  some.query_norm = {};
  some.key_norm = {};
  module.backward(tape, bsd(grad_out), bsd(again), some);
  CHECK(same_bits(again, grad_x));
  CHECK(some.query_norm.size() == 0);
  CHECK(some.query_projection.weight == all.query_projection.weight);
  // Gradients are added.
  auto twice = all;
  module.backward(tape, bsd(grad_out), bsd(again), twice);
  for (Index n = 0; n < head_dim; ++n) {
    CHECK(twice.key_norm(n) == Approx(2 * all.key_norm(n)).epsilon(1e-5).margin(1e-6));
  }
}

TEST_CASE("qk_norm: a module with a norm is bit-identical on every device",
          "[mha][norm][threads]") {
  for (const QkNorm& norm : {of_heads_minus_one, of_all}) {
    const auto module = make_module<Linear<float>>(norm);
    const auto x = random_tokens<float>(2, 70), grad_out = random_tokens<float>(2, 70, 5);
    support::check_same_on_all_devices([&](const auto&... device) {
      Embeddings<float> out(2, 70, dim), cached(2, 70, dim), grad_x(2, 70, dim);
      const posenc::AttentionOptions<float> options{.causal = Causal::BottomRight};
      MultiHeadTape<float> tape;
      module.forward(bsd(x), Positions::range(0, 70), bsd(out), tape, options, {}, device...);
      auto gradients = module.zero_gradients();
      module.backward(tape, bsd(grad_out), bsd(grad_x), gradients, nullptr, device...);
      posenc::KvCache<float> cache({.sequences = 2,
                                    .kv_heads = kv_heads,
                                    .head_dim = head_dim,
                                    .value_dim = value_dim,
                                    .capacity = 70});
      module.forward(bsd(x), Positions::range(0, 70), cache, {0, 1}, bsd(cached), options, {},
                     device...);
      support::Bytes bytes;
      for (const auto* tensor : {&out, &cached, &grad_x}) {
        bytes.add(tensor->data(), static_cast<std::size_t>(tensor->size()));
      }
      for (const auto* gradient : {&gradients.query_norm, &gradients.key_norm}) {
        bytes.add(gradient->data(), static_cast<std::size_t>(gradient->size()));
      }
      return bytes;
    });
  }
}

TEST_CASE("qk_norm: parameters of norms are counted", "[mha][norm]") {
  const MultiHeadAttention<float> none(config_with({})), head(config_with(of_heads)),
      all(config_with(of_all));
  CHECK(none.query_norm.size() == 0);
  CHECK(none.key_norm.size() == 0);
  CHECK(none.zero_gradients().query_norm.size() == 0);
  CHECK(head.query_norm.cols() == head_dim);
  CHECK(head.key_norm.cols() == head_dim);
  CHECK(all.query_norm.cols() == heads * head_dim);
  CHECK(all.key_norm.cols() == kv_heads * head_dim);
  CHECK(head.parameter_count() == none.parameter_count() + 2 * head_dim);
  CHECK(all.parameter_count() == none.parameter_count() + (heads + kv_heads) * head_dim);
  CHECK(all.config().qk_norm == of_all);
}

TEST_CASE("qk_norm: incomplete settings of a norm are rejected", "[mha][norm][errors]") {
  const auto error = [](const QkNorm& norm) {
    return message_of<ConfigError>([&] { MultiHeadAttention<float> module(config_with(norm)); });
  };
  const std::string name = "posenc::MultiHeadAttention: ";
  const std::string over = name +
                           "qk_norm.over must be set: Head or AllHeads; without a norm, "
                           "qk_norm.weight and qk_norm.epsilon "
                           "must be absent";
  CHECK(error({.epsilon = 1e-6}) == over);
  CHECK(error({.weight = QkNormWeight::Factor}) == over);
  CHECK(error({.over = QkNormOver::Head, .epsilon = 1e-6}) ==
        name + "qk_norm.weight must be set: Factor, or FactorMinusOne as in Gemma's files");
  const auto of_epsilon = [&](double epsilon) {
    return error({QkNormOver::AllHeads, QkNormWeight::Factor, epsilon});
  };
  const std::string rule = name + "qk_norm.epsilon must be set, finite and positive but is ";
  CHECK(of_epsilon(0) == rule + "0");
  CHECK(of_epsilon(-1e-6).substr(0, rule.size()) == rule);
  CHECK(of_epsilon(std::numeric_limits<double>::quiet_NaN()).substr(0, rule.size()) == rule);
  CHECK(of_epsilon(std::numeric_limits<double>::infinity()).substr(0, rule.size()) == rule);
}

TEST_CASE("qk_norm: weights of a wrong length are rejected before anything is written",
          "[mha][norm][errors]") {
  auto module = make_module<Linear<float>>(of_heads);
  const auto x = random_tokens<float>(1, 3);
  Embeddings<float> out(1, 3, dim);
  out.setConstant(77);
  posenc::KvCache<float> cache(
      {.kv_heads = kv_heads, .head_dim = head_dim, .value_dim = value_dim, .capacity = 8});
  MultiHeadTape<float> tape;
  const posenc::AttentionOptions<float> options{.causal = Causal::BottomRight};
  const auto positions = Positions::range(0, 3);
  const auto check = [&](const std::string& message) {
    const std::string want = "posenc::MultiHeadAttention::forward: " + message;
    CHECK(message_of<ShapeError>([&] { module.forward(bsd(x), positions, bsd(out), options); }) ==
          want);
    CHECK(message_of<ShapeError>([&] {
            module.forward(bsd(x), positions, bsd(x), bsd(x), positions, bsd(out), options);
          }) == want);
    CHECK(message_of<ShapeError>(
              [&] { module.forward(bsd(x), positions, bsd(out), tape, options); }) == want);
    CHECK(message_of<ShapeError>(
              [&] { module.forward(bsd(x), positions, cache, {0}, bsd(out), options); }) == want);
    CHECK(cache.length(0) == 0);
    for (Index n = 0; n < out.size(); ++n) REQUIRE(out.data()[n] == 77);
  };
  module.query_norm.resize(1, 5);
  check("query_norm must have 6 values but has 5");
  module.query_norm.resize(6, 1);
  module.key_norm = {};
  check("key_norm must have 6 values but has 0");
  auto none = make_module<Linear<float>>({});
  none.key_norm.resize(1, 6);
  CHECK(message_of<ShapeError>([&] { none.forward(bsd(x), positions, bsd(out), options); }) ==
        "posenc::MultiHeadAttention::forward: key_norm must be empty without a qk_norm but has 6 "
        "values");
  // A cache of other heads.
  const auto valid = make_module<Linear<float>>(of_heads);
  posenc::KvCache<float> wide(
      {.kv_heads = kv_heads, .head_dim = head_dim + 2, .value_dim = value_dim, .capacity = 8});
  CHECK_THROWS_AS(valid.forward(bsd(x), positions, wide, {0}, bsd(out), options), ShapeError);
  CHECK(wide.length(0) == 0);
}

TEST_CASE("qk_norm: backward rejects gradients and tapes of another norm", "[mha][norm][errors]") {
  auto module = make_module<Linear<float>>(of_heads);
  const auto none = make_module<Linear<float>>({});
  const auto x = random_tokens<float>(1, 3);
  Embeddings<float> out(1, 3, dim), grad_x(1, 3, dim);
  MultiHeadTape<float> tape, other;
  const auto positions = Positions::range(0, 3);
  module.forward(bsd(x), positions, bsd(out), tape, {.causal = Causal::No});
  none.forward(bsd(x), positions, bsd(out), other, {.causal = Causal::No});
  const std::string name = "posenc::MultiHeadAttention::backward: ";
  auto gradients = module.zero_gradients();
  const auto run = [&] { module.backward(tape, bsd(out), bsd(grad_x), gradients); };
  gradients.key_norm.resize(1, 7);
  CHECK(message_of<ShapeError>(run) == name + "gradients.key_norm must have 6 values but has 7");
  gradients = module.zero_gradients();
  module.query_norm.resize(1, 4);
  CHECK(message_of<ShapeError>(run) == name + "query_norm must have 6 values but has 4");
  module.query_norm.resize(1, 6);
  CHECK(message_of<ConfigError>([&] {
          module.backward(other, bsd(out), bsd(grad_x), gradients);
        }) == name + "the tape is of another module, without a qk_norm");
  auto of_none = none.zero_gradients();
  CHECK(message_of<ConfigError>([&] { none.backward(tape, bsd(out), bsd(grad_x), of_none); }) ==
        name + "the tape is of another module, with a qk_norm");
  of_none.query_norm.resize(1, 6);
  CHECK(message_of<ShapeError>([&] { none.backward(other, bsd(out), bsd(grad_x), of_none); }) ==
        name + "gradients.query_norm must be empty without a qk_norm but has 6 values");
}

}  // namespace qk_norm_test
