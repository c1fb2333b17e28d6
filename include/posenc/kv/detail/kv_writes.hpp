// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/detail/kv_block_tables.hpp>
#include <posenc/kv/detail/kv_transfer.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/detail/token_runs.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

POSENC_BEGIN
namespace detail {

/// Write of tokens to a cache's memory in two steps, because a device's parallelFor() may fail for
/// lack of memory before or during its work. First the device writes where no sequence holds keys.
/// Then the calling thread, which cannot fail, writes the rest.
///   Written: a callable; written(n) is the PendingWrite of run n
template <class Storage, class Written>
class TokenWrites {
 public:
  /// Allocates the memory.
  ///   Throws: MemoryLimitError, std::bad_alloc; nothing has changed then
  TokenWrites(const char* function, Storage& storage, const TokenRuns& runs, const Written& written)
      : storage_(storage),
        runs_(runs),
        written_(written),
        spare_(storage.blocks().make_writable(function, runs.size(), written)) {}
  TokenWrites(const TokenWrites&) = delete;
  TokenWrites& operator=(const TokenWrites&) = delete;
  ~TokenWrites() {
    if (is_done_) return;
    for (Index n = 0; n < runs_.size(); ++n) {
      const PendingWrite keys = written_(n);
      if (keys.preserves_old && clears_in_step(keys, false)) {
        storage_.truncate_values(keys.sequence, keys.old.end, keys.keys.end);
      }
      storage_.blocks().release_except(keys.sequence, keys.old);
    }
  }

  /// Writes all tokens of k and v.
  ///   Throws: what the device throws; all sequences hold their old keys then
  template <Device D, class T>
  void run(const D& device, const HeadsView<const T>& k, const HeadsView<const T>& v) {
    const auto first_key = [&](Index n) { return written_(n).keys.begin; };
    const bool in_two_steps = has_threads<D> && has_second_step();
    const auto step = [&](const auto& on, bool second) {
      clear_first_tiles(
          [&](const PendingWrite& keys) { return !in_two_steps || clears_in_step(keys, second); });
      write_tokens(on, storage_, runs_, k, v, first_key, [&](Index n, Index tile) {
        return !in_two_steps || storage_.overwrites(written_(n), tile) == second;
      });
    };
    if (in_two_steps) step(device, false);
    storage_.blocks().replace_shared(spare_, runs_.size(), written_);
    in_two_steps ? step(CallingThread(), true) : step(device, true);
    is_done_ = true;
  }

 private:
  /// True if a call clears memory around its first key before it writes there.
  bool clears_first_tile(const PendingWrite& keys) const noexcept {
    return !keys.keys.empty() || (!keys.preserves_old && !storage_.blocks().has_pool());
  }
  bool clears_in_step(const PendingWrite& keys, bool second) const noexcept {
    return clears_first_tile(keys) &&
           storage_.overwrites(keys, keys.keys.begin / tile_keys) == second;
  }
  bool has_second_step() const noexcept {
    for (Index n = 0; n < runs_.size(); ++n) {
      const PendingWrite keys = written_(n);
      if (clears_in_step(keys, true)) return true;
      const KeyRange tiles = tiles_of(keys.keys);
      for (Index tile = tiles.begin + 1; tile < tiles.end; ++tile) {
        if (storage_.overwrites(keys, tile)) return true;
      }
    }
    return false;
  }

  /// Clears the memory around the first key of the runs with selects(keys).
  template <class Selects>
  void clear_first_tiles(const Selects& selects) noexcept {
    for (Index n = 0; n < runs_.size(); ++n) {
      const PendingWrite keys = written_(n);
      if (!clears_first_tile(keys) || !selects(keys)) continue;
      if (keys.preserves_old) {
        // Stale values that truncate() could not remove from shared memory.
        storage_.truncate_values(keys.sequence, keys.old.end, keys.old.end);
      } else {
        storage_.reset_value_tile(keys.sequence, keys.keys.begin);
      }
    }
  }

  Storage& storage_;
  TokenRuns runs_;
  const Written& written_;
  UnassignedBlocks spare_;
  bool is_done_ = false;
};

}  // namespace detail
POSENC_END
