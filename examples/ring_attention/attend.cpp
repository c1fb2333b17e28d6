// SPDX-License-Identifier: MIT
#include "attend.hpp"

#include "../tour/numbers.hpp"

#include <array>
#include <future>
#include <span>
#include <utility>

namespace ring {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void attend_to_block(const Threads& threads, posenc::HeadsView<const float> q,
                     const KeysAndValues& kv, Index place, Outputs& outputs) {
  posenc::attention(
      threads, q, kv.keys(), kv.values(), posenc::bshd(outputs.out),
      {.causal = posenc::Causal::FromStart, .query_starts = {&place, 1}, .lse = outputs.lse()});
}

Spent attend_around_ring(const Process& process, const Stripes& stripes, const Layer& layer,
                         const Threads& threads, Seconds limit, posenc::HeadsView<const float> q,
                         const KeysAndValues& own, Outputs& outputs) {
  const int rank = process.rank(), ranks = process.ranks();
  const auto owner_at = [&](int step) { return (rank + ranks - step) % ranks; };
  const Index most = stripes.count(0);
  std::array travelling{KeysAndValues(layer, most), KeysAndValues(layer, most)};
  Outputs part(layer, q.seq);
  Spent spent;

  const auto attend = [&](const KeysAndValues& kv, int step) {
    const auto begin = Clock::now();
    attend_to_block(threads, q, kv, Stripes::place(rank, owner_at(step)),
                    step == 0 ? outputs : part);
    const auto attended = Clock::now();
    spent.attending += attended - begin;
    if (step == 0) return;
    posenc::merge(threads, posenc::bshd(outputs.out), outputs.lse(),
                  posenc::bshd(std::as_const(part.out)), part.lse());
    spent.merging += Clock::now() - attended;
  };

  const KeysAndValues* here = &own;
  for (int step = 0; step + 1 < ranks; ++step) {
    const auto begin = Clock::now();
    const auto busy = spent.attending + spent.merging;
    KeysAndValues& coming = travelling[static_cast<std::size_t>(step % 2)];
    coming.resize(stripes.count(owner_at(step + 1)));
    const auto letter = [&](int of, int peer) {
      return Letter{.name = tour::cat("the keys of rank ", of, " in step ", step),
                    .peer = peer,
                    .tag = tag::keys + step,
                    .unit = static_cast<std::size_t>(layer.token_bytes())};
    };
    std::array messages{
        Request::receive(coming.bytes(), letter(owner_at(step + 1), process.previous())),
        Request::send(here->bytes(), letter(owner_at(step), process.next()))};
    // MPI moves large messages on only while it is asked about them: this thread asks, another one computes.
    auto computing = std::async(std::launch::async, attend, std::cref(*here), step);
    wait(messages, limit);
    computing.get();
    spent.waiting += Clock::now() - begin - (spent.attending + spent.merging - busy);
    here = &coming;
  }
  attend(*here, ranks - 1);
  return spent;
}

}  // namespace ring
