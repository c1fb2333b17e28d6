// SPDX-License-Identifier: MIT
#include "attend.hpp"

#include <array>
#include <utility>
#include <vector>

namespace ring {

void attend_to_block(const Threads& threads, posenc::HeadsView<const float> q,
                     const KeysAndValues& kv, Index place, Outputs& outputs) {
  posenc::attention(q, kv.keys(), kv.values(), posenc::bshd(outputs.out),
                    {.causal = posenc::Causal::FromStart, .query_starts = {&place, 1}}, {},
                    {.lse = outputs.lse()}, threads);
}

Spent attend_around_ring(const Ring& ring, posenc::HeadsView<const float> q,
                         const KeysAndValues& own, Outputs& outputs) {
  std::array travelling{KeysAndValues(ring.layer, ring.most_tokens()),
                        KeysAndValues(ring.layer, ring.most_tokens())};
  Outputs part(ring.layer, q.seq);
  Spent spent;

  const auto attend = [&](const KeysAndValues& kv, int step) {
    const auto begin = Clock::now();
    attend_to_block(ring.threads, q, kv, ring.place_at(step), step == 0 ? outputs : part);
    const auto attended = Clock::now();
    spent.attending += attended - begin;
    if (step == 0) return;
    posenc::merge(posenc::bshd(outputs.out), outputs.lse(), posenc::bshd(std::as_const(part.out)),
                  part.lse(), ring.threads);
    spent.joining += Clock::now() - attended;
  };

  const KeysAndValues* here = &own;
  for (int step = 0; step < ring.ranks(); ++step) {
    std::vector<Request> messages;
    KeysAndValues& coming = travelling[static_cast<std::size_t>(step % 2)];
    ring.pass_keys_on(*here, step, coming, messages);
    ring.work_while_moving(messages, spent, [&] { attend(*here, step); });
    here = &coming;
  }
  return spent;
}

}  // namespace ring
