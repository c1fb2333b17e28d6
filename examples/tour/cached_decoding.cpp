// SPDX-License-Identifier: MIT
// Decoding from a cache: a prompt in one call, then one token per call, bit-identical to one pass
// over all tokens.
#include "chapters.hpp"
#include "kernels.hpp"
#include "numbers.hpp"
#include "random.hpp"
#include "stopwatch.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace tour::cached_decoding {

namespace {

constexpr Index length = 1024, prompt = 384, window = 128, chunk = 64;
static_assert(prompt % chunk == 0);
constexpr Index query_heads = 8, kv_heads = 2, dim = 64;

template <class T>
using Heads = Eigen::Tensor<T, 4, Eigen::RowMajor>;  // [1, length, heads, dim]

/// Tokens whose queries and keys RoPE has already rotated.
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
  rope.rotate_all({posenc::bshd(tokens.q), posenc::bshd(tokens.k)},
                  posenc::Positions::range(0, length));
  return tokens;
}

template <class T>
posenc::AttentionOptions<T> options_of(Index visible) {
  posenc::AttentionOptions<T> options{.causal = posenc::Causal::BottomRight};
  if (visible != 0) options.window = posenc::sliding_window(visible);
  return options;
}

/// Attends with all queries in one call over tensors, without a cache; keys and values are rounded
/// to S before.
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

/// Decodes the prompt in chunks of `piece` tokens, then one token per call.
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

/// Returns the number of elements whose bits differ.
Index differing(const Heads<float>& a, const Heads<float>& b) {
  Index count = 0;
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  for (Index n = 0; n < a.size(); ++n) count += bits(a.data()[n]) == bits(b.data()[n]) ? 0 : 1;
  return count;
}

/// Returns the distance of all heads' outputs from the exact ones at each position, as a share of
/// these.
Eigen::VectorXd errors(const Heads<float>& out, const Heads<double>& truth) {
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Heads<double> widened = out.cast<double>();
  constexpr Index width = query_heads * dim;
  const Eigen::Map<const Rows> found(widened.data(), length, width),
      exact(truth.data(), length, width);
  return (found - exact).rowwise().norm().cwiseQuotient(exact.rowwise().norm());
}

/// Results of one cache.
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

/// Microseconds for the last of `count` tokens: attention of this token over a cache, and of all
/// tokens again, as without a cache.
struct Times {
  double cached = 0, again = 0;
};

Times times_at(Tokens& tokens, Index count) {
  const auto part = [](auto& x, Index first, Index n) {
    return posenc::slice_seq(posenc::bshd(x), first, n);
  };
  Heads<float> out(1, length, query_heads, dim);
  posenc::KvCache<float> cache(whole());
  cache.append(0, part(tokens.k, 0, count), part(tokens.v, 0, count));
  const Index slots[] = {0};
  // excerpt: cached_decoding
  const auto cached = [&] {  // the last query over the keys and values of the cache
    posenc::attention(part(tokens.q, count - 1, 1), cache, slots, part(out, 0, 1),
                      options_of<float>(0));
  };
  const auto again = [&] {  // every query over every key
    posenc::attention(part(tokens.q, 0, count), part(tokens.k, 0, count), part(tokens.v, 0, count),
                      part(out, 0, count), options_of<float>(0));
  };
  // end of excerpt
  return {nanoseconds(cached, 3) / 1000, nanoseconds(again, 3) / 1000};
}

/// Returns the bytes of a cache with capacity for that many tokens.
template <class S>
double kibibytes(const posenc::KvCacheConfig& config) {
  // excerpt: cached_decoding
  return static_cast<double>(posenc::KvCache<S>(config).bytes()) / 1024;
  // end of excerpt
}

/// Returns the figure. times: tokens, cached, again; memory: tokens, float, bfloat16, ring of
/// bfloat16.
Figure picture(const Eigen::MatrixXd& times, const Eigen::MatrixXd& memory) {
  Figure figure{.name = "cached_decoding",
                .title = "Time of one more token with and without a cache, and memory of caches",
                .width = 960,
                .height = 430,
                .blocks = {{"times", times}, {"memory", memory}}};
  figure.commands = R"(set multiplot layout 1,2 margins 0.085,0.97,0.15,0.88 spacing 0.1,0
set grid lc '#dddddd'
set key top left reverse Left
set title 'attention of one more token (measured here)'
set xlabel 'tokens so far'
set ylabel 'microseconds, logarithmic'
set logscale x 2
set logscale y
set format y '10^{%L}'
set xtics (16, 32, 64, 128, 256)
set xrange [14:295]
set yrange [*:*]
plot data index 'times' using 1:3 with linespoints lt 2 ps 0.8 title 'all of them again', \
  '' index 'times' using 1:2 with linespoints lt 1 ps 0.8 title 'from the cache'
unset logscale
set title 'memory of the cache'
set xlabel 'tokens of the text'
set ylabel 'KiB'
set format y '%g'
set xtics 256
set xrange [0:1024]
set yrange [0:1150]
plot data index 'memory' using 1:2 with linespoints ps 0.7 lt 1 title 'float', \
  '' index 'memory' using 1:3 with linespoints ps 0.7 lt 2 title 'bfloat16, half', \
  '' index 'memory' using 1:4 with linespoints ps 0.7 lt 3 title 'bfloat16, ring for a window of 128'
unset multiplot
)";
  return figure;
}

}  // namespace

void show(Tour& tour) {
  const Tokens tokens = make_tokens();
  const Outcome in_float = run<float>(tokens, "float", whole());
  const Outcome in_half = run<Eigen::half>(tokens, "half", whole());
  const Outcome in_bfloat16 = run<Eigen::bfloat16>(tokens, "bfloat16", whole());
  const Outcome ring_float = run<float>(tokens, "float, ring", ring());
  const Outcome ring_bfloat16 = run<Eigen::bfloat16>(tokens, "bfloat16, ring", ring());

  Report& report = tour.report;
  report.paragraph(cat(
      "A language model reads its prompt in one pass and then generates one token after the other. "
      "A "
      "`posenc::KvCache` stores the keys and values, so that those of each token are computed "
      "once. "
      "Here are ",
      grouped(length), " random tokens, ", query_heads, " query heads, ", kv_heads,
      " heads of keys and values, ", dim, " channels each, rotated by RoPE: a prompt of ", prompt,
      " and then ", length - prompt, " tokens one at a time. A model with a window of ", window,
      " tokens needs no more than a ring, in which new keys overwrite keys that no later window "
      "reaches. The ring gets the prompt ",
      chunk,
      " tokens at a time. It overwrites complete tiles of 128 keys, so at the end it still has "
      "more "
      "keys than the window; the second column lists them."));
  report.table(
      {"From a cache, and in one pass over tensors with all keys and values, rounded as "
       "in the cache. Errors are shares of the output, against unrounded keys and "
       "values in double",
       {"cache", "keys at the end", "memory", "numbers that differ from one pass", "mean error",
        "largest error"},
       {in_float.row, in_half.row, in_bfloat16.row, ring_float.row, ring_bfloat16.row}});

  const double early = in_bfloat16.error.head(prompt).mean(),
               late = in_bfloat16.error.tail(prompt).mean();
  report.paragraph(
      cat("The stored format determines the error: half keeps 11 bits and bfloat16 8, so "
          "bfloat16's is ",
          fixed(in_bfloat16.error.mean() / in_half.error.mean(), 1),
          " times that of half in the mean; sums are in float in both cases. The error does not "
          "grow with the text: bfloat16 has ",
          scientific(early), " on average over the first ", prompt, " positions and ",
          scientific(late), " over the last."));

  Tokens timed = tokens;
  Eigen::MatrixXd times(5, 3), memory(8, 4);
  for (Index n = 0; n < 5; ++n) {
    const Index count = Index{16} << n;
    const Times measured = times_at(timed, count);
    times.row(n) << static_cast<double>(count), measured.cached, measured.again;
  }
  for (Index n = 0; n < 8; ++n) {
    posenc::KvCacheConfig config = whole();
    config.capacity = 128 * (n + 1);
    memory.row(n) << static_cast<double>(config.capacity), kibibytes<float>(config),
        kibibytes<Eigen::bfloat16>(config), kibibytes<Eigen::bfloat16>(ring());
  }
  report.picture(
      picture(times, memory),
      cat("Left, both axes logarithmic: after 256 tokens one more takes ",
          grouped(std::llround(times(4, 1))), " microseconds from the cache, and ",
          grouped(std::llround(times(4, 2))), " if attention is computed again for all tokens, ",
          fixed(times(4, 2) / times(4, 1), 0), " times as long. Right: the cost is memory, ",
          grouped(std::llround(memory(7, 1))), " KiB for ", grouped(length), " tokens in float, ",
          fixed(memory(7, 2), 0), " in 16 bits. A ring keeps its ", fixed(memory(7, 3), 0),
          " KiB for any length of the text. ", kernels_that_run()));
}

}  // namespace tour::cached_decoding
