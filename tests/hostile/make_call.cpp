// SPDX-License-Identifier: MIT
#include "hostile/calls.hpp"
#include <posenc/core/error.hpp>

#include <array>
#include <exception>

namespace hostile {

const char* make_call(std::span<const std::uint8_t> bytes) {
  Draw draw(bytes);
  const std::array lists{calls_of_positions(), calls_on_tokens(), calls_on_heads(),
                         calls_of_attention()};
  const auto list = lists[static_cast<std::size_t>(draw.below(lists.size()))];
  const Call& call = list[static_cast<std::size_t>(draw.below(static_cast<Index>(list.size())))];
  Memory memory(draw);
  try {
    call.make(draw, memory);
  } catch (const posenc::ShapeError&) {
  } catch (const posenc::ConfigError&) {
  } catch (const posenc::PositionError&) {
  } catch (const posenc::MemoryLimitError&) {
  } catch (const std::exception&) {
    return call.name;
  }
  return nullptr;
}

}  // namespace hostile
