// SPDX-License-Identifier: MIT
#include "go_back.hpp"

#include <array>
#include <utility>
#include <vector>

namespace ring {
namespace {

void add(std::span<const float> more, std::span<float> sums) {
  for (std::size_t n = 0; n < sums.size(); ++n) sums[n] += more[n];
}

std::span<float> numbers(Heads& x) { return {x.data(), static_cast<std::size_t>(x.size())}; }

}  // namespace

void go_back_through_block(const Threads& threads, const Attended& queries, const KeysAndValues& kv,
                           Index place, posenc::HeadsView<float> grad_q, KeysAndValues& grad_kv) {
  posenc::AttentionGradients<float> gradients;
  gradients.q = grad_q;
  gradients.k = grad_kv.keys();
  gradients.v = grad_kv.values();
  posenc::attention_backward(
      queries.q, kv.keys(), kv.values(), posenc::bshd(std::as_const(queries.outputs.out)),
      queries.outputs.lse(), queries.grad_out, gradients,
      {.causal = posenc::Causal::FromStart, .query_starts = {&place, 1}}, {}, {}, nullptr, threads);
}

Spent go_back_around_ring(const Ring& ring, const Attended& queries, const KeysAndValues& own,
                          Gradients& gradients) {
  const auto room = [&] { return KeysAndValues(ring.layer, ring.most_tokens()); };
  std::array travelling{room(), room()}, sums{room(), room()};
  KeysAndValues part = room();
  Heads part_of_q(gradients.q.dimensions());
  Spent spent;

  const auto go_back = [&](const KeysAndValues& kv, int step, KeysAndValues& grad_kv) {
    const auto begin = Clock::now();
    Heads& grad_q = step == 0 ? gradients.q : part_of_q;
    go_back_through_block(ring.threads, queries, kv, ring.place_at(step), posenc::bshd(grad_q),
                          grad_kv);
    spent.attending += Clock::now() - begin;
  };
  const auto add_to = [&](std::span<float> all, std::span<const float> more) {
    const auto begin = Clock::now();
    add(more, all);
    spent.joining += Clock::now() - begin;
  };

  const KeysAndValues* here = &own;
  for (int step = 0; step < ring.ranks(); ++step) {
    std::vector<Request> messages;
    KeysAndValues& coming = travelling[static_cast<std::size_t>(step % 2)];
    ring.pass_keys_on(*here, step, coming, messages);
    // The rank after the owner starts a sum. For other owners this rank adds to the sum that has
    // arrived meanwhile.
    KeysAndValues& sum = sums[static_cast<std::size_t>(step % 2)];
    sum.resize(ring.tokens_at(step));
    if (step > 1) {
      const KeysAndValues& done = sums[static_cast<std::size_t>((step - 1) % 2)];
      ring.exchange("gradients", tag::gradients(step), step, {done, ring.owner_at(step - 1)},
                    {sum, ring.owner_at(step)}, messages);
    }
    KeysAndValues& grad_kv = step == 0 ? gradients.kv : step == 1 ? sum : part;
    grad_kv.resize(ring.tokens_at(step));
    ring.work_while_moving(messages, spent, [&] { go_back(*here, step, grad_kv); });
    if (step > 0) add_to(numbers(gradients.q), numbers(part_of_q));
    if (step > 1) add_to(sum.numbers(), part.numbers());
    here = &coming;
  }
  if (ring.ranks() == 1) return spent;

  const int home = ring.ranks();
  part.resize(own.tokens());
  std::vector<Request> messages;
  ring.exchange("gradients", tag::gradients(home), home,
                {sums[static_cast<std::size_t>((home - 1) % 2)], ring.owner_at(home - 1)},
                {part, ring.rank()}, messages);
  ring.work_while_moving(messages, spent, [] {});
  add_to(gradients.kv.numbers(), part.numbers());
  return spent;
}

}  // namespace ring
