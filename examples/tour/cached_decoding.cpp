// SPDX-License-Identifier: MIT
// A prompt at once, then a token at a time from a cache: the bits of one pass over everything.
#include "chapters.hpp"
#include "numbers.hpp"
#include "random.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace tour {

namespace {

constexpr Index length = 1024, prompt = 384, window = 128, chunk = 64;
static_assert(prompt % chunk == 0);
constexpr Index query_heads = 8, kv_heads = 2, dim = 64;

template <class T>
using Heads = Eigen::Tensor<T, 4, Eigen::RowMajor>;  // [1, length, heads, dim]

/// Queries and keys are turned by RoPE already.
struct Tokens {
  Heads<float> q, k, v;
};

Heads<float> random_heads(Index count, std::uint64_t seed) {
  Random random(seed);
  Heads<float> x(1, length, count, dim);
  std::generate_n(x.data(), x.size(), [&] { return static_cast<float>(random.normal()); });
  return x;
}

Tokens make_tokens() {
  Tokens tokens{random_heads(query_heads, 1), random_heads(kv_heads, 2), random_heads(kv_heads, 3)};
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  rope.rotate_all(posenc::Positions::range(0, length), posenc::bshd(tokens.q),
                  posenc::bshd(tokens.k));
  return tokens;
}

template <class T>
posenc::AttentionOptions<T> options_of(Index visible) {
  posenc::AttentionOptions<T> options{.causal = posenc::Causal::BottomRight};
  if (visible != 0) options.window = posenc::sliding_window(visible);
  return options;
}

/// All queries at once over tensors, without a cache; keys and values rounded to S before.
template <class S, class T>
Heads<T> one_pass(const Tokens& tokens, Index visible) {
  const Heads<T> q = tokens.q.template cast<T>();
  const Heads<T> k = tokens.k.template cast<S>().template cast<T>();
  const Heads<T> v = tokens.v.template cast<S>().template cast<T>();
  Heads<T> out(1, length, query_heads, dim);
  posenc::attention(posenc::bshd(q), posenc::bshd(k), posenc::bshd(v), posenc::bshd(out),
                    options_of<T>(visible));
  return out;
}

/// The prompt in pieces of `piece` tokens, then a token at a time.
template <class S>
Heads<float> from_cache(const Tokens& tokens, posenc::KvCache<S>& cache, Index piece) {
  Heads<float> out(1, length, query_heads, dim);
  const Index slots[] = {0};
  for (Index first = 0; first < length; first = cache.length(0)) {
    const Index count = first < prompt ? piece : 1;
    const auto part = [&](auto& x) { return posenc::slice_seq(posenc::bshd(x), first, count); };
    cache.append(0, part(tokens.k), part(tokens.v));
    posenc::attention(part(tokens.q), cache, slots, part(out), options_of<float>(cache.window()));
  }
  return out;
}

/// Numbers whose bits differ.
Index differing(const Heads<float>& a, const Heads<float>& b) {
  Index count = 0;
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  for (Index n = 0; n < a.size(); ++n) count += bits(a.data()[n]) == bits(b.data()[n]) ? 0 : 1;
  return count;
}

/// At each position the distance of all heads' outputs from the true ones, as a share of these.
Eigen::VectorXd errors(const Heads<float>& out, const Heads<double>& truth) {
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Heads<double> widened = out.cast<double>();
  constexpr Index width = query_heads * dim;
  const Eigen::Map<const Rows> found(widened.data(), length, width),
      exact(truth.data(), length, width);
  return (found - exact).rowwise().norm().cwiseQuotient(exact.rowwise().norm());
}

/// What came of one cache.
struct Outcome {
  Eigen::VectorXd error;
  std::vector<std::string> row;
};

template <class S>
Outcome run(const Tokens& tokens, const std::string& name, const posenc::KvCacheConfig& config) {
  posenc::KvCache<S> cache(config);
  const Index visible = config.window;
  const Heads<float> out = from_cache(tokens, cache, visible == 0 ? prompt : chunk);
  const Heads<double> truth = one_pass<float, double>(tokens, visible);
  Outcome outcome{errors(out, truth), {}};
  outcome.row = {name,
                 cat(grouped(cache.first(0)), " to ", grouped(length - 1)),
                 cat(grouped(static_cast<Index>(cache.bytes() / 1024)), " KiB"),
                 cat(grouped(differing(out, one_pass<S, float>(tokens, visible))), " of ",
                     grouped(out.size())),
                 scientific(outcome.error.mean()),
                 scientific(outcome.error.maxCoeff())};
  return outcome;
}

posenc::KvCacheConfig whole() {
  return {.kv_heads = kv_heads, .head_dim = dim, .capacity = length};
}

posenc::KvCacheConfig ring() {
  return {.kv_heads = kv_heads, .head_dim = dim, .window = window, .max_append = chunk};
}

Figure picture(const Eigen::MatrixXd& columns) {
  Figure figure{.name = "cached_decoding",
                .title = "Error of the output at each position, for caches of three types",
                .height = 380,
                .blocks = {{"errors", columns}}};
  figure.commands = R"(set title 'Attention from a cache: error of the output, by position'
set xlabel 'position'
set ylabel 'error / size of the output'
set logscale y
set format y '10^{%L}'
set xrange [0:1024]
set yrange [1e-8:3e-2]
set xtics 128
set grid lc '#dddddd'
set key at graph 0.98,0.66 title 'stored as'
set label 1 'prompt | a token at a time' at 384, 1.4e-2 center font 'sans-serif,11'
set arrow 1 from 384, 1e-8 to 384, 1e-2 nohead dt 2 lc '#444444'
plot data index 'errors' using 0:3 with lines lw 1 lt 2 title 'bfloat16', \
  '' index 'errors' using 0:2 with lines lw 1 lt 3 title 'half', \
  '' index 'errors' using 0:1 with lines lw 1 lt 1 title 'float'
)";
  return figure;
}

}  // namespace

void show_cached_decoding(Tour& tour) {
  const Tokens tokens = make_tokens();
  const Outcome in_float = run<float>(tokens, "float", whole());
  const Outcome in_half = run<Eigen::half>(tokens, "half", whole());
  const Outcome in_bfloat16 = run<Eigen::bfloat16>(tokens, "bfloat16", whole());
  const Outcome ring_float = run<float>(tokens, "float, ring", ring());
  const Outcome ring_bfloat16 = run<Eigen::bfloat16>(tokens, "bfloat16, ring", ring());

  Report& report = tour.report;
  report.paragraph(cat(
      "A model that writes reads its prompt at once and then makes one token after the other. A "
      "`posenc::KvCache` keeps the keys and values, so that each token's own are computed once. "
      "Here are ",
      grouped(length), " random tokens, ", query_heads, " query heads, ", kv_heads,
      " heads of keys and values, ", dim, " channels each, turned by RoPE: a prompt of ", prompt,
      " and then ", length - prompt, " tokens one at a time. A model with a window of ", window,
      " tokens needs no more than a ring, which forgets old keys by itself; it takes the prompt ",
      chunk, " tokens at a time."));
  report.table(
      {"From a cache, and in one pass over tensors that hold every key and value, rounded as "
       "the cache rounds them. Errors are shares of the output, against unrounded keys and "
       "values in double",
       {"cache", "keys at the end", "memory", "numbers that differ from one pass", "mean error",
        "largest error"},
       {in_float.row, in_half.row, in_bfloat16.row, ring_float.row, ring_bfloat16.row}});

  Eigen::MatrixXd columns(length, 3);
  columns << in_float.error, in_half.error, in_bfloat16.error;
  const double early = columns.col(2).head(prompt).mean(),
               late = columns.col(2).tail(prompt).mean();
  report.picture(
      picture(columns),
      cat("What is stored decides the error: half keeps 11 bits and bfloat16 8, so bfloat16's is ",
          fixed(in_bfloat16.error.mean() / in_half.error.mean(), 1),
          " times that of half in the mean; sums are in float all the same. The error does not "
          "grow with the text (bfloat16: ",
          scientific(early), " in the first ", prompt, " positions, ", scientific(late),
          " in the last), and nothing shows where the prompt ends."));
}

}  // namespace tour
