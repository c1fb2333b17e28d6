// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/gguf_architectures.hpp>
#include <posenc/interop/gguf_file.hpp>
#include <posenc/interop/gguf_rules.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/rotary/multimodal_axes.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

POSENC_STABLE_BEGIN

/// Settings of read_gguf.
struct GgufOptions {
  /// Which channels form a pair. Needed where the architecture is unknown; elsewhere it replaces
  /// what the architecture implies.
  std::optional<PairingKind> pairing = std::nullopt;
  GgufAttentionFactor attn_factor = GgufAttentionFactor::Unspecified;  ///< of YaRN
};

static_assert(std::is_trivially_copyable_v<GgufOptions>);

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {

/// One file on its way into ModelSettings.
class GgufReader {
 public:
  GgufReader(const GgufFile& file, std::string architecture, const GgufOptions& options)
      : keys_(file, architecture), options_(options) {
    const GgufArchitecture* known = find_gguf_architecture(architecture);
    if (known == nullptr && !options.pairing) {
      fail<ConfigError>(GgufKeys::function, "the architecture '", architecture,
                        "' is unknown; name the pairing of its channels in the options to read it "
                        "as a plain rotary model");
    }
    entry_ = known != nullptr ? *known : GgufArchitecture{{}, GgufMode::Neox};
    if (entry_.mode == GgufMode::None) {
      fail<ConfigError>(GgufKeys::function, "'", architecture, "' has no rotary encoding");
    }
    model_.model_type = std::move(architecture);
  }

  ModelSettings read() {
    refuse_unknown_keys();
    model_.trained_length = keys_.integer("context_length").value_or(0);
    model_.softmax_scale = keys_.real("attention.scale");
    const bool has_local_layers = keys_.integer("attention.sliding_window").value_or(0) > 0 &&
                                  (entry_.local_period != 0 || keys_.has("rope.freq_base_swa"));
    if (!has_local_layers) {
      refuse_local_keys();
      add_layer("", global_rotary());
    } else {
      add_layer("full_attention", global_rotary());
      add_layer("sliding_attention", local_rotary(model_.layers.front().rotary));
      read_layer_types();
    }
    if (entry_.no_rope_period != 0) {
      const Index layers = layer_count();
      for (Index i = entry_.no_rope_period - 1; i < layers; i += entry_.no_rope_period) {
        model_.layers_without_rotary.push_back(i);
      }
    }
    validate(model_);
    return std::move(model_);
  }

 private:
  void add_layer(const char* type, RotarySettings rotary) {
    model_.layers.push_back({type, std::move(rotary)});
  }

  /// Keys of rotary encoding that no rule below reads would be ignored in silence.
  void refuse_unknown_keys() const {
    constexpr std::string_view known[] = {"dimension_count",
                                          "dimension_count_swa",
                                          "dimension_sections",
                                          "freq_base",
                                          "freq_base_swa",
                                          "scale",
                                          "scale_linear",
                                          "scaling.type",
                                          "scaling.factor",
                                          "scaling.original_context_length",
                                          "scaling.finetuned",
                                          "scaling.attn_factor",
                                          "scaling.yarn_ext_factor",
                                          "scaling.yarn_attn_factor",
                                          "scaling.yarn_beta_fast",
                                          "scaling.yarn_beta_slow",
                                          "scaling.yarn_log_multiplier"};
    const std::string prefix = keys_.full("rope.");
    for (const std::string& key : keys_.file().keys(prefix)) {
      const auto name = std::string_view(key).substr(prefix.size());
      if (std::find(std::begin(known), std::end(known), name) == std::end(known)) {
        fail<ConfigError>(GgufKeys::function, "the key ", key, " is unknown");
      }
    }
  }

  void refuse_local_keys() const {
    for (const char* name : {"rope.freq_base_swa", "rope.dimension_count_swa"}) {
      if (keys_.has(name)) keys_.refuse(name, "has no effect without attention.sliding_window");
    }
  }

  PairingKind pairing() const {
    if (options_.pairing) return *options_.pairing;
    const bool has_sections = keys_.has("rope.dimension_sections");
    switch (entry_.mode) {
      case GgufMode::Normal:
        return PairingKind::Interleaved;
      case GgufMode::NormalOrMrope:
        return has_sections ? PairingKind::HalfRotate : PairingKind::Interleaved;
      default:
        return PairingKind::HalfRotate;
    }
  }

  static Index checked_width(const GgufKeys& keys, const char* name, Index width) {
    if (width < 2 || width > largest_head_dim || width % 2 != 0) {
      keys.refuse(name, "must be even and from 2 to 65536, but makes it " + std::to_string(width));
    }
    return width;
  }

  Index head_dim() const {
    for (const char* name : {"attention.key_length_mla", "attention.key_length"}) {
      if (const auto given = keys_.integer(name)) return checked_width(keys_, name, *given);
    }
    const auto embedding = keys_.integer("embedding_length");
    const auto heads = keys_.integers("attention.head_count");
    if (!embedding || !heads || heads->empty()) {
      keys_.refuse("attention.key_length",
                   "is missing, and so is embedding_length or attention.head_count");
    }
    const Index count = heads->front();
    if (std::any_of(heads->begin(), heads->end(), [count](Index h) { return h != count; })) {
      keys_.refuse("attention.head_count", "differs between layers, and there is no key_length");
    }
    if (count < 1) keys_.refuse("attention.head_count", "must be positive");
    return checked_width(keys_, "embedding_length", *embedding / count);
  }

  RotarySettings global_rotary() const {
    RotarySettings rotary{.pairing = pairing(), .head_dim = head_dim()};
    const Index dim = keys_.integer("rope.dimension_count").value_or(rotary.head_dim);
    checked_width(keys_, "rope.dimension_count", dim);
    if (entry_.family == GgufFamily::DeepSeek || entry_.family == GgufFamily::Mla) {
      rotary.rotary_offset = rotary.head_dim - dim;
    }
    rotary.axes = axes(dim / 2);
    rotary.rule = gguf_rule(keys_, {.rotary_dim = dim,
                                    .base = keys_.real("rope.freq_base").value_or(10000),
                                    .family = entry_.family,
                                    .attn_factor = options_.attn_factor});
    return rotary;
  }

  /// The same without scaling, with what the file says of local layers.
  RotarySettings local_rotary(const RotarySettings& global) const {
    const bool unscaled = std::holds_alternative<Unscaled>(global.rule);
    if (!unscaled && entry_.family != GgufFamily::LocalUnscaled &&
        entry_.family != GgufFamily::Olmo2) {
      fail<ConfigError>(GgufKeys::function, "whether scaling applies to the local layers of '",
                        model_.model_type, "' is unknown");
    }
    RotarySettings rotary = global;
    rotary.head_dim = keys_.integer("attention.key_length_swa").value_or(global.head_dim);
    const Index global_dim = rotary_dim(global);
    const Index dim =
        keys_.integer("rope.dimension_count_swa").value_or((std::min)(global_dim, rotary.head_dim));
    checked_width(keys_, "rope.dimension_count_swa", dim);
    const double usual =
        entry_.local_base != 0 ? entry_.local_base : keys_.real("rope.freq_base").value_or(10000);
    rotary.rule =
        Unscaled{.rotary_dim = dim, .base = keys_.real("rope.freq_base_swa").value_or(usual)};
    return rotary;
  }

  PairAxes axes(Index pairs) const {
    auto sections = keys_.integers("rope.dimension_sections").value_or(std::vector<Index>{});
    while (sections.size() > 3 && sections.back() == 0) sections.pop_back();
    Index sum = 0;
    for (const Index section : sections) {
      if (section < 0 || section > pairs - sum) {
        keys_.refuse("rope.dimension_sections",
                     "must hold no negative number and add up to " + std::to_string(pairs));
      }
      sum += section;
    }
    const bool needed = entry_.mode == GgufMode::Mrope || entry_.mode == GgufMode::Imrope;
    if (sum == 0) {
      if (needed) keys_.refuse("rope.dimension_sections", "is missing");
      return {};
    }
    if (entry_.mode == GgufMode::Imrope) return mrope_interleaved(sections, MropeTail::Fourth);
    if (entry_.mode == GgufMode::Normal || entry_.mode == GgufMode::Neox) {
      keys_.refuse("rope.dimension_sections", "is given, but this architecture has one axis");
    }
    return mrope_chunked(sections);
  }

  Index layer_count() const {
    const Index layers = keys_.integer("block_count").value_or(0);
    if (layers < 1 || layers > 65536) {
      keys_.refuse("block_count", "must be given, and from 1 to 65536");
    }
    return layers;
  }

  void read_layer_types() {
    const Index layers = layer_count();
    constexpr auto name = "attention.sliding_window_pattern";
    const auto pattern = keys_.integers(name);
    const bool is_list = pattern && !keys_.file().is_number(keys_.full(name));
    if (is_list && static_cast<Index>(pattern->size()) != layers) {
      keys_.refuse(name, "must have one entry a layer");
    }
    const Index period = pattern && !is_list ? pattern->front() : entry_.local_period;
    if (!is_list && period < 1) keys_.refuse(name, "must be given, and be positive");
    for (Index i = 0; i < layers; ++i) {
      const bool is_local =
          is_list ? (*pattern)[static_cast<std::size_t>(i)] != 0 : i % period != period - 1;
      model_.layer_types.emplace_back(is_local ? "sliding_attention" : "full_attention");
    }
  }

  GgufKeys keys_;
  GgufOptions options_;
  GgufArchitecture entry_{};
  ModelSettings model_;
};

}  // namespace detail

/// What a GGUF file says of the rotary encoding, as llama.cpp reads it: pairs as the architecture
/// has them (weights of the Llama family are permuted to Interleaved), scaling by keys, by
/// rope_freqs.weight (Llama 3 has it baked in there), or by rope_factors_long.weight and _short.
///   Throws: ConfigError that names the key for an unknown architecture without options.pairing, an
///           unknown type of scaling or key below <architecture>.rope, keys that contradict each
///           other or whose meaning is not sure, a model without rotary encoding, and values out of
///           range
inline ModelSettings read_gguf(const GgufFile& file, const GgufOptions& options = {}) {
  auto architecture = file.text("general.architecture");
  if (!architecture) {
    detail::fail<ConfigError>(detail::GgufKeys::function, "general.architecture is missing");
  }
  return detail::GgufReader(file, *std::move(architecture), options).read();
}

/// The same from the bytes of a file.
inline ModelSettings read_gguf(std::span<const std::byte> bytes, const GgufOptions& options = {}) {
  return read_gguf(GgufFile::from_bytes(bytes), options);
}

/// The same from a file, of which only the header is read.
inline ModelSettings read_gguf(const std::filesystem::path& path, const GgufOptions& options = {}) {
  return read_gguf(GgufFile::from_path(path), options);
}

POSENC_END
