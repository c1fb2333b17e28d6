// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/check_bias.hpp>
#include <posenc/attention/detail/check_call.hpp>
#include <posenc/attention/detail/kernels.hpp>
#include <posenc/attention/detail/masks.hpp>
#include <posenc/attention/detail/packed_tiles.hpp>
#include <posenc/attention/detail/places.hpp>
#include <posenc/attention/detail/schedule.hpp>
#include <posenc/attention/detail/tensor_source.hpp>
#include <posenc/attention/detail/unpacked_tiles.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/concepts.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <optional>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// What a caller inside of posenc adds to the options that its user gave, without a copy of them.
struct BesideOptions {
  const char* function = "attention";  ///< in whose name exceptions are thrown
  double scale_multiplier = 1;
  GivenPositions positions = {};
  AttentionWorkspace* workspace = nullptr;  ///< unless the options have one
};

/// Positions of the options, where they have some, else those beside them.
template <Scalar T>
GivenPositions positions_of(const AttentionOptions<T>& options, const GivenPositions& beside) {
  const auto given = [](const std::optional<Positions>& in_options, const Positions* other) {
    return in_options ? &*in_options : other;
  };
  return {given(options.query_positions, beside.queries),
          given(options.key_positions, beside.keys)};
}

/// The options' workspace, else the one beside them, else `own`.
template <Scalar T>
AttentionWorkspace& workspace_of(const AttentionOptions<T>& options, const BesideOptions& beside,
                                 AttentionWorkspace& own) noexcept {
  if (options.workspace != nullptr) return *options.workspace;
  return beside.workspace != nullptr ? *beside.workspace : own;
}

/// True if a view has memory and no axis of 0.
template <class T>
bool has_cells(const ScoresView<T>& x) noexcept {
  return x.data != nullptr && x.batch != 0 && x.heads != 0 && x.queries != 0 && x.keys != 0;
}

/// True if few queries may read a source's keys and values unpacked. A RelativeBias multiplies packed keys.
template <class Source, class T, class Bias>
inline constexpr bool may_read_unpacked =
    std::is_same_v<typename Source::Stored, Compute<T>> && !std::is_same_v<Bias, RelativeBias<T>> &&
    requires(const Source& source) {
  source.keys();
  source.values();
};

/// What attention() over tensors and over a cache have in common, once q, out and the keys fit.
///   source: hands out tiles, see tensor_source.hpp; key_count: of its longest batch row
template <class Tier, Device D, Scalar T, class Bias, class Source>
void attend(const D& device, const HeadsView<const T>& q, const Source& source, Index key_count,
            Index value_dim, const HeadsView<T>& out, const AttentionOptions<T>& options,
            const Bias& bias, const BesideOptions& beside) {
  static_assert(
      AttentionBias<Bias, T>,
      "posenc::attention: Bias must provide add(head, query_positions, key_positions, tile), or "
      "add(tokens, tile), or be a RelativeBias of q's type; see ScoreBias and TokenBias in "
      "posenc/concepts.hpp");
  constexpr bool has_bias = !std::is_same_v<Bias, NoBias>;
  const char* const function = beside.function;
  const bool has_rows = q.batch != 0 && q.seq != 0 && q.heads != 0;
  const bool has_results =
      value_dim != 0 || options.lse.data != nullptr || has_cells(options.weights);
  const AttentionShape shape{q.batch, q.heads, q.seq, key_count,
                             !has_rows || (q.dim == 0 && !has_results)};
  const double scale = checked_scale<T>(function, options, beside.scale_multiplier, q.dim);
  check_options<T>(function, options, shape);
  check_returned<T>(function, options, shape);
  const Places<T> places(function, options, shape, source.stored(),
                         positions_of(options, beside.positions));
  const Masks<T> masks(function, options, shape, places);
  check_bias<T>(function, bias, places, masks, shape, q);
  const bool drops = options.dropout.probability > 0;
  if (drops) places.require_query_positions("dropout");
  if (options.temperature) places.require_query_positions("temperature");
  if (!has_rows || !has_results) return;
  const ReturnedWeights<T> returned(options, options.weights);
  const Index group = q.heads / source.heads();
  AttentionWorkspace own;
  const auto run = [&](const auto& reader) {
    using Run = Schedule<Tier, D, T, Bias, std::remove_cvref_t<decltype(reader)>>;
    const typename Run::Call call{
        {q, places, masks, group, has_bias || drops || options.temperature, options.temperature,
         returned.ignore_masks()},
        {options, bias, returned, static_cast<Compute<T>>(scale)},
        {out, options, returned, padded_value_dim(value_dim)},
        options.dropout};
    Run(device, call, reader).run(slots_of(workspace_of(options, beside, own)));
  };
  if constexpr (may_read_unpacked<Source, T, Bias>) {
    using Unpacked = UnpackedTiles<Tier, T>;
    if (Unpacked::is_eligible(places.most_queries(), group)) {
      return run(Unpacked(source.keys(), source.values()));
    }
  }
  run(PackedTiles<Tier, T, Source>(source));
}

/// attention() over tensors, on a tier of the caller's choice.
template <class Tier, Device D, Scalar T, class Bias>
void attend_to_tensors(const D& device, const HeadsView<const T>& q, const HeadsView<const T>& k,
                       const HeadsView<const T>& v, const HeadsView<T>& out,
                       const AttentionOptions<T>& options, const Bias& bias,
                       const BesideOptions& beside = {}) {
  check_tensors<T>(beside.function, q, k, v);
  check_out(beside.function, q, out, v.dim);
  attend<Tier>(device, q, TensorKeys<Tier, T>(k, v), k.seq, v.dim, out, options, bias, beside);
}

}  // namespace detail
POSENC_END
