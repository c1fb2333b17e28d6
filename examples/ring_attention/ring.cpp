// SPDX-License-Identifier: MIT
#include "ring.hpp"

#include "../tour/numbers.hpp"

namespace ring {

void Ring::exchange(const std::string& name, int tag, int step, const Going& going,
                    const Coming& coming, std::vector<Request>& messages) const {
  const auto letter = [&](int owner, int peer) {
    return Letter{.name = tour::cat("the ", name, " of rank ", owner, " in step ", step),
                  .peer = peer,
                  .tag = tag,
                  .unit = static_cast<std::size_t>(layer.token_bytes())};
  };
  messages.push_back(
      Request::receive(coming.of_tokens.bytes(), letter(coming.owner, process.previous())));
  messages.push_back(Request::send(going.of_tokens.bytes(), letter(going.owner, process.next())));
}

void Ring::pass_keys_on(const KeysAndValues& here, int step, KeysAndValues& coming,
                        std::vector<Request>& messages) const {
  if (step + 1 == ranks()) return;
  coming.resize(tokens_at(step + 1));
  exchange("keys", tag::keys(step), step, {here, owner_at(step)}, {coming, owner_at(step + 1)},
           messages);
}

}  // namespace ring
