// SPDX-License-Identifier: MIT
// Results that have the same bits: on one thread and on three of a device of our own, in one pass and in chunks, over
// tensors and over a cache, from a table and without. Also the error of float32 angles.
#include <posenc/attention/attention.hpp>
#include <posenc/frequency/hf_float32.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <thread>
#include <vector>

using posenc::Index;
using posenc::Positions;
using Numbers = std::vector<float>;
using Rope = posenc::Rope<posenc::HalfRotate>;

namespace {

// [device]
/// Device on std::thread. An engine would wake the threads of its pool instead of starting some.
class Threads {
 public:
  struct Cost {  // of one unit of work; this device does not need it
    double bytes_loaded, bytes_stored, cycles;
  };

  explicit Threads(int count) : count_(count) {}
  int numThreads() const { return count_; }
  int numThreadsInPool() const { return count_; }
  int currentThreadId() const { return id_; }  // 0 ...; -1: no thread of this device

  /// Calls work(first, last) for ranges that cover [0, count), and returns when all are done.
  template <class Work>
  void parallelFor(Index count, const Cost&, const Work& work) const {
    std::vector<std::thread> threads;
    for (int id = 0; id < count_; ++id) {
      threads.emplace_back(
          [&work, id, first = count * id / count_, last = count * (id + 1) / count_] {
            id_ = id;
            if (first != last) work(first, last);
          });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int count_;
  static thread_local int id_;
};
thread_local int Threads::id_ = -1;
// [/device]

constexpr Index tokens = 300, heads = 4, kv_heads = 2, dim = 64;
const posenc::Unscaled rule{.rotary_dim = dim, .base = 10000};
const Rope rope(rule);

posenc::HeadsView<float> view(Numbers& x, Index heads_per_token) {
  return {.data = x.data(), .batch = 1, .seq = tokens, .heads = heads_per_token, .dim = dim};
}

Numbers numbers(Index heads_per_token, int seed) {
  Numbers x;
  for (Index n = 0; n < tokens * heads_per_token * dim; ++n) {
    x.push_back(std::sin(static_cast<float>(n * n % 997 + 31 * seed)));
  }
  return x;
}

struct Layer {
  Numbers q = numbers(heads, 1), k = numbers(kv_heads, 2), v = numbers(kv_heads, 3), out = q;

  template <class... Device>
  void run(const Device&... device) {
    rope.rotate_all({view(q, heads), view(k, kv_heads)}, Positions::range(0, tokens), device...);
    posenc::attention(view(q, heads), view(k, kv_heads), view(v, kv_heads), view(out, heads),
                      {.causal = posenc::Causal::BottomRight}, {}, {}, device...);
  }
};

/// Runs a layer over a cache, first a chunk of `chunk` tokens, then chunks of `step` tokens.
Numbers in_chunks(Index chunk, Index step) {
  Layer layer;
  posenc::KvCache<float> cache({.kv_heads = kv_heads, .head_dim = dim, .capacity = tokens});
  for (Index first = 0, count = chunk; first < tokens;
       first += count, count = std::min(step, tokens - first)) {
    const auto part = [&](Numbers& x, Index h) {
      return posenc::slice_seq(view(x, h), first, count);
    };
    rope.rotate_all({part(layer.q, heads), part(layer.k, kv_heads)},
                    Positions::range(first, count));
    cache.append(0, part(layer.k, kv_heads), part(layer.v, kv_heads));
    posenc::attention(part(layer.q, heads), cache, {0}, part(layer.out, heads),
                      {.causal = posenc::Causal::BottomRight});
  }
  return layer.out;
}

/// Returns the largest error of cos and sin at 1000 positions up to `last`, against exact angles.
double float32_error(Index last) {
  // [float32]
  const Rope float32(posenc::hf_float32_frequencies(rule), 0, {}, posenc::AnglePolicy::HfFloat32);
  const auto positions = Positions::range(last - 999, 1000);
  const auto exact = rope.table<double>(positions), rounded = float32.table<double>(positions);
  // [/float32]
  double error = 0;
  for (Index s = 0; s < 1000; ++s) {
    for (Index i = 0; i < dim / 2; ++i) {
      error = std::max({error, std::abs(exact.cos().row(0, s)[i] - rounded.cos().row(0, s)[i]),
                        std::abs(exact.sin().row(0, s)[i] - rounded.sin().row(0, s)[i])});
    }
  }
  return error;
}

}  // namespace

int main() {
  bool ok = true;
  const auto check = [&ok](const char* what, bool same) {
    std::cout << (same ? "the same bits: " : "DIFFERENT: ") << what << '\n';
    ok = ok && same;
  };
  Layer one;
  one.run();
  for (const int count : {1, 2, 3}) {
    Layer other;
    other.run(Threads(count));
    check("threads", other.q == one.q && other.out == one.out);
  }
  check("one pass over a cache", in_chunks(tokens, 1) == one.out);
  check("a prompt of 128 tokens, then one at a time", in_chunks(128, 1) == one.out);
  check("chunks of 37 tokens", in_chunks(37, 37) == one.out);

  Numbers by_table = numbers(heads, 1);
  rope.table<float>(Positions::range(0, tokens)).rotate(view(by_table, heads));
  check("a table", by_table == one.q);

  std::cout.precision(1);
  for (const Index last : {4096, 131072, 1000000}) {
    std::cout << "float32 angles up to position " << last << " are off by " << float32_error(last)
              << '\n';
  }
  ok = ok && float32_error(4096) > 1e-5 && float32_error(1000000) > 1e-2;
  return ok ? 0 : 1;
}
