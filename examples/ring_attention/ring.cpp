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

}  // namespace ring
