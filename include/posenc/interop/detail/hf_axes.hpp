// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/rotary/pair_axes.hpp>

#include <optional>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Returns the order of the axes of mrope_section: that of the type, the file, or the caller. The
/// classes of types that alternate read neither mrope_interleaved nor interleaved, which must
/// agree.
///   Source: huggingface/transformers 5.24, Qwen3OmniMoeTalkerRotaryEmbedding and
///           Cosmos3EdgeTextRotaryEmbedding, recomposition_frequencies(), which writes sections of
///           more than every third pair with a stride up to the last pair
POSENC_COLD inline MropeOrder hf_mrope_order(const JsonKeys& keys, HfMrope form,
                                             std::optional<MropeOrder> of_caller) {
  using enum MropeOrder;
  constexpr auto key = "mrope_interleaved", alias = "interleaved";
  const auto given = keys.flag(key), again = keys.flag(alias);
  if (form == HfMrope::Interleaved && given == false) {
    keys.reject(key, "is false, but models of this type interleave");
  }
  std::optional<MropeOrder> order = of_caller;
  if (form == HfMrope::Interleaved || form == HfMrope::Chunked) {
    order = form == HfMrope::Interleaved ? Interleaved : Chunked;
  }
  if (given) order = *given ? Interleaved : Chunked;
  if (!order) {
    keys.reject("mrope_section", "has no order of axes: set mrope_order in the options");
  }
  if (of_caller && *of_caller != *order) {
    keys.reject("mrope_section", "has the other order than mrope_order of the options: ",
                (*order == Chunked ? "chunks" : "alternating axes"));
  }
  if (again && *again != (*order == Interleaved)) {
    keys.reject(alias, "contradicts the order of the axes, which is ",
                (*order == Chunked ? "chunks" : "alternating axes"));
  }
  return *order;
}

/// Returns the axes of the positions that rotate the pairs of a head.
POSENC_COLD inline PairAxes hf_axes(const JsonKeys& keys, HfMrope form,
                                    std::optional<MropeOrder> order, Index pairs) {
  const auto mrope = keys.integers("mrope_section");
  const auto xdrope = keys.integers("xdrope_section");
  if (mrope && xdrope) keys.reject("xdrope_section", "contradicts mrope_section");
  for (const char* key : {"mrope_interleaved", "interleaved"}) {
    if (keys.flag(key) && !mrope) keys.reject(key, "needs mrope_section");
  }
  if (form != HfMrope::None) keys.required("mrope_section", mrope);
  if (!mrope && !xdrope) return {};

  const std::vector<Index>& sections = mrope ? *mrope : *xdrope;
  Index sum = 0;
  for (const Index section : sections) {
    if (section < 0 || section > pairs - sum) {
      keys.reject(mrope ? "mrope_section" : "xdrope_section",
                  "must have no negative entry and add up to the number of pairs, ", pairs);
    }
    sum += section;
  }
  if (xdrope) return xdrope_axes(sections);
  if (form == HfMrope::TimeLast) return ernie_axes(sections);
  return hf_mrope_order(keys, form, order) == MropeOrder::Interleaved
             ? mrope_interleaved(sections, MropeTail::Time)
             : mrope_chunked(sections);
}

}  // namespace detail
POSENC_END
