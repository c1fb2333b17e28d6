// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/detail/kv_blocks.hpp>
#include <posenc/kv/detail/kv_storage.hpp>
#include <posenc/kv/detail/kv_tokens.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

POSENC_BEGIN
namespace detail {

/// Write of tokens to a cache's memory in two steps, because a device's parallelFor() may fail for
/// lack of memory before or during its work. First the device writes where no sequence holds keys.
/// Then the calling thread, which cannot fail, writes the rest.
///   Written: a callable; written(n) is the WrittenKeys of run n
template <class Storage, class Written>
class TokenWrites {
 public:
  /// Allocates the memory.
  ///   Throws: MemoryLimitError, std::bad_alloc; nothing has changed then
  TokenWrites(const char* function, Storage& storage, const TokenRuns& runs, const Written& written)
      : storage_(storage),
        runs_(runs),
        written_(written),
        spare_(storage.prepare(function, runs.size(), written)) {}
  TokenWrites(const TokenWrites&) = delete;
  TokenWrites& operator=(const TokenWrites&) = delete;
  ~TokenWrites() {
    if (is_done_) return;
    for (Index n = 0; n < runs_.size(); ++n) {
      const WrittenKeys keys = written_(n);
      if (keys.keeps_old && begins_in_step(keys, false)) {
        storage_.cut_values(keys.sequence, keys.old.end, keys.keys.end);
      }
      storage_.keep_only(keys.sequence, keys.old);
    }
  }

  /// Writes all tokens of k and v.
  ///   Throws: what the device throws; all sequences hold their old keys then
  template <Device D, class T>
  void run(const D& device, const HeadsView<const T>& k, const HeadsView<const T>& v) {
    const auto first_key = [&](Index n) { return written_(n).keys.begin; };
    if (!has_threads<D> || !has_second_step()) {
      storage_.replace_shared(spare_, runs_.size(), written_);
      begin([](const WrittenKeys&) { return true; });
      write_tokens(device, storage_, runs_, k, v, first_key);
    } else {
      const auto step = [&](const auto& on, bool second) {
        begin([&](const WrittenKeys& keys) { return begins_in_step(keys, second); });
        write_tokens(on, storage_, runs_, k, v, first_key, [&](Index n, Index tile) {
          return storage_.overwrites(written_(n), tile) == second;
        });
      };
      step(device, false);
      storage_.replace_shared(spare_, runs_.size(), written_);
      step(CallingThread(), true);
    }
    is_done_ = true;
  }

 private:
  /// True if a call clears memory around its first key before it writes there.
  bool begins(const WrittenKeys& keys) const noexcept {
    return !keys.keys.empty() || (!keys.keeps_old && !storage_.shares());
  }
  bool begins_in_step(const WrittenKeys& keys, bool second) const noexcept {
    return begins(keys) && storage_.overwrites(keys, keys.keys.begin / tile_keys) == second;
  }
  bool has_second_step() const noexcept {
    for (Index n = 0; n < runs_.size(); ++n) {
      const WrittenKeys keys = written_(n);
      if (begins_in_step(keys, true)) return true;
      const KeyRange tiles = tiles_of(keys.keys);
      for (Index tile = tiles.begin + 1; tile < tiles.end; ++tile) {
        if (storage_.overwrites(keys, tile)) return true;
      }
    }
    return false;
  }

  /// Clears the memory around the first key of the runs with selects(keys).
  template <class Selects>
  void begin(const Selects& selects) noexcept {
    for (Index n = 0; n < runs_.size(); ++n) {
      const WrittenKeys keys = written_(n);
      if (!begins(keys) || !selects(keys)) continue;
      if (keys.keeps_old) {
        // Stale values that truncate() could not remove from shared memory.
        storage_.cut_values(keys.sequence, keys.old.end, keys.old.end);
      } else {
        storage_.begin_values(keys.sequence, keys.keys.begin);
      }
    }
  }

  Storage& storage_;
  TokenRuns runs_;
  const Written& written_;
  SpareBlocks spare_;
  bool is_done_ = false;
};

}  // namespace detail
POSENC_END
