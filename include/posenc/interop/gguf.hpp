// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/compiled.hpp>
#include <posenc/interop/gguf_file.hpp>
#include <posenc/interop/gguf_options.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/rotary/pairing.hpp>

#include <cstddef>
#include <optional>
#include <span>

POSENC_BEGIN

/// Reads the settings of a GGUF file as llama.cpp does. Pairing: by the architecture (weights of
/// the Llama family are permuted to Interleaved). Scaling: by keys, by rope_freqs.weight (which
/// contains Llama 3's scaling), or by rope_factors_long.weight and _short. Scale, softcap and
/// temperature of scores, and heads and window of each layer: by keys or by the architecture, as
/// far as these give them. One difference: Grok 2's temperature (attention.temperature_length) is
/// returned, as in the model's training; llama.cpp reads the key and does not apply it.
///
/// GgufOptions must state what the file of an unknown architecture does not, except the base: 10000
/// is llama.cpp's default for every architecture. Its windows are absent.
///   Throws: ConfigError that names the key, for an unknown architecture whose file and options do
///           not state everything, an architecture whose layers this reader does not support, an
///           unknown type of scaling, an unknown key below `<architecture>.rope` or `.attention` or
///           elsewhere with a name that suggests positions, keys that contradict each other or
///           whose meaning is uncertain, a model without rotary encoding, and values out of range
POSENC_DETAIL_READER ModelSettings read_gguf(const GgufFile& file, const GgufOptions& options = {});

/// Overload of read_gguf() that reads the bytes of a file.
POSENC_DETAIL_READER ModelSettings read_gguf(std::span<const std::byte> bytes,
                                             const GgufOptions& options = {});

#if POSENC_HAS_FILESYSTEM
/// Overload of read_gguf() that reads only the header of a file on disk, and its rotary tensors.
POSENC_DETAIL_READER ModelSettings read_gguf(const std::filesystem::path& path,
                                             const GgufOptions& options = {});
#endif

POSENC_END

#if POSENC_DETAIL_DEFINES_READERS
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/gguf_architectures.hpp>
#include <posenc/interop/detail/gguf_attention.hpp>
#include <posenc/interop/detail/gguf_checks.hpp>
#include <posenc/interop/detail/gguf_known_keys.hpp>
#include <posenc/interop/detail/gguf_layers.hpp>
#include <posenc/interop/detail/gguf_scores.hpp>
#include <posenc/interop/detail/gguf_sizes.hpp>
#include <posenc/interop/detail/gguf_unknown_architecture.hpp>
#include <posenc/interop/detail/names.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Reader of one file into ModelSettings.
class GgufReader {
 public:
  GgufReader(const GgufFile& file, const std::string& name, const GgufOptions& options)
      : keys_(file, name), options_(options) {
    if (const auto* refused = find_row(gguf_unsupported_architectures, name)) {
      fail<ConfigError>(
          GgufKeys::function, "'", name,
          refused->has_rotary ? "' is not supported: it has " : "' has no rotary encoding: it has ",
          refused->has);
    }
    if (const GgufArchitecture* row = find_row(gguf_architectures, name)) {
      gguf_reject_statements(name, options);
      architecture_ = *row;
      is_known_ = true;
    } else {
      gguf_require_statements(keys_, name, options);
    }
    model_.model_type = name;
  }

  ModelSettings read() {
    gguf_reject_unknown_keys(keys_, options_.ignored_keys);
    gguf_reject_other_encodings(keys_);
    check_keys();
    model_.trained_length = keys_.integer("context_length").value_or(0);
    if (!has_local_rotary()) {
      model_.layers.push_back({"", global_rotary()});
    } else {
      const char* global = architecture_.compresses_keys ? "compressed" : "full_attention";
      model_.layers.push_back({global, global_rotary()});
      model_.layers.push_back({"sliding_attention", local_rotary(model_.layers.front().rotary)});
      for (const bool is_local : gguf_local_layers(keys_, architecture_)) {
        model_.layer_types.emplace_back(is_local ? "sliding_attention" : global);
      }
    }
    gguf_read_scores(keys_, architecture_, model_);
    if (options_.softmax_scale) {
      check_option("softmax_scale", *options_.softmax_scale, "scale", model_.softmax_scale);
      model_.softmax_scale = options_.softmax_scale;
    }
    model_.layers_without_rotary = gguf_layers_without_rotary(keys_, architecture_);
    GgufAttention(keys_, architecture_, is_known_, model_).read();
    gguf_read_sizes(keys_, model_);
    validate(model_);
    return std::move(model_);
  }

 private:
  /// Checks an option of an unknown architecture against the value in the file, if any.
  static void check_option(const char* name, double value, const char* what,
                           std::optional<double> given) {
    if (!given || *given == value) return;
    fail<ConfigError>(GgufKeys::function, name, " of the options is ", value, " but the file's ",
                      what, " is ", *given);
  }

  /// Checks keys that the architecture must or may not have, and that switch its rotation off.
  void check_keys() const {
    const bool finetuned = keys_.flag("rope.scaling.finetuned").value_or(true);
    if (architecture_.rope.finetuned_switches_rotary && !finetuned) {
      keys_.reject("rope.scaling.finetuned",
                   "is false, which switches the rotary encoding of this architecture off");
    }
    if (architecture_.rope.only_depth != 0 &&
        gguf_layer_count(keys_) != architecture_.rope.only_depth) {
      keys_.reject("block_count", "is ", gguf_layer_count(keys_),
                   ": of this architecture, only models of ", architecture_.rope.only_depth,
                   " layers have a rotary encoding");
    }
    constexpr auto window = "attention.sliding_window",
                   pattern = "attention.sliding_window_pattern";
    if (architecture_.windows.chunk != 0 && keys_.integer(window).value_or(1) == 0) {
      keys_.reject(window, "is 0, for which the rotated layers are unknown");
    }
    if (architecture_.rope.nope_layers ==
        GgufNopeLayers::FirstOfFour) {  // the loader hard-codes 4096
      const Index size = keys_.integer(window).value_or(0);
      if (size != 0 && size != 4096) keys_.reject(window, "is not the 4096 of this architecture");
    }
    gguf_check_local_base(keys_, architecture_);
    gguf_check_local_width(keys_, architecture_);
    gguf_check_layer_lists(keys_, architecture_);
    if (architecture_.rope.is_plain) gguf_check_plain(keys_, head_dim());
    gguf_check_compressed(keys_, architecture_);
    gguf_check_tensors(keys_, architecture_, model_.model_type);
    if (!is_known_ && keys_.has(pattern)) {
      keys_.reject(pattern, "varies between layers in a way that is unknown for this architecture");
    }
    if (architecture_.rope.nope_layers != GgufNopeLayers::LinearLayers &&
        keys_.has("full_attention_interval")) {
      keys_.reject("full_attention_interval", "is not known for this architecture");
    }
  }

  /// True if layers with a window have another rotation than global layers.
  bool has_local_rotary() const {
    const bool has_window =
        keys_.integer("attention.sliding_window").value_or(0) > 0 &&
        (architecture_.rope.nope_layers != GgufNopeLayers::GlobalOf64 || gguf_has_64_layers(keys_));
    bool has_keys = false;
    for (const char* name : {"rope.freq_base_swa", "rope.dimension_count_swa",
                             "attention.key_length_swa", "attention.key_length_mla_swa"}) {
      if (!keys_.has(name)) continue;
      if (!has_window) keys_.reject(name, "has no effect without attention.sliding_window");
      has_keys = true;
    }
    return architecture_.compresses_keys ||
           (has_window && (architecture_.rope.local != GgufLocal::AsGlobal ||
                           architecture_.rope.global_part != 1 || has_keys));
  }

  PairingKind pairing() const {
    if (options_.pairing) return *options_.pairing;
    const bool has_sections = keys_.has("rope.dimension_sections");
    switch (architecture_.mode) {
      case GgufMode::Normal:
        return PairingKind::Interleaved;
      case GgufMode::NormalOrMrope:
        return has_sections ? PairingKind::HalfRotate : PairingKind::Interleaved;
      default:
        return PairingKind::HalfRotate;
    }
  }

  Index checked_width(const char* name, Index width) const {
    if (width < 2 || width > max_head_dim || width % 2 != 0) {
      keys_.reject(name, "must be even and from 2 to 65536, but makes it ", width);
    }
    return width;
  }

  Index head_dim() const {
    for (const char* name : {"attention.key_length_mla", "attention.key_length"}) {
      if (const auto given = keys_.integer(name)) return checked_width(name, *given);
    }
    const auto embedding = keys_.integer("embedding_length");
    const auto heads = keys_.integers("attention.head_count");
    if (!embedding || !heads || heads->empty()) {
      keys_.reject("attention.key_length",
                   "is missing, and so is embedding_length or attention.head_count");
    }
    const Index count = heads->front();
    if (std::any_of(heads->begin(), heads->end(), [count](Index h) { return h != count; })) {
      keys_.reject("attention.head_count", "differs between layers, and there is no key_length");
    }
    if (count < 1) keys_.reject("attention.head_count", "must be positive");
    return checked_width("embedding_length", *embedding / count);
  }

  double global_base() const {
    constexpr auto of_compressed = "attention.compress_rope_freq_base";
    if (!architecture_.compresses_keys) return gguf_base(keys_);
    const auto base = keys_.real(of_compressed);
    if (!base) keys_.reject(of_compressed, "is missing");
    return *base;
  }

  /// Returns the number of rotated channels of the widest layers.
  Index rotary_width(Index head_dim) const {
    const auto given = keys_.integer("rope.dimension_count");
    if (!options_.rotary_share) return given.value_or(head_dim);
    const double share = *options_.rotary_share, width = static_cast<double>(head_dim);
    if (!(share > 0 && share <= 1)) {
      fail<ConfigError>(GgufKeys::function, "rotary_share must lie in (0, 1] but is ", share);
    }
    if (given) check_option("rotary_share", share, "share", static_cast<double>(*given) / width);
    return static_cast<Index>(width * share);
  }

  RotarySettings global_rotary() const {
    RotarySettings rotary{.pairing = pairing(), .head_dim = head_dim()};
    const Index dim = rotary_width(rotary.head_dim) / architecture_.rope.global_part;
    checked_width("rope.dimension_count", dim);
    if (architecture_.rope.rotary_is_last) rotary.rotary_offset = rotary.head_dim - dim;
    rotary.axes = axes(dim / 2);
    rotary.rule = rule(dim, global_base());
    return rotary;
  }

  RotaryRule rule(Index rotary_dim, double base) const {
    return gguf_rule(keys_, {.rotary_dim = rotary_dim,
                             .base = base,
                             .architecture = &architecture_,
                             .attn_factor = options_.attn_factor});
  }

  /// Returns the rotation of local layers: the global one with the keys of local layers, and
  /// without scaling where the architecture scales global layers alone.
  RotarySettings local_rotary(const RotarySettings& global) const {
    RotarySettings rotary = global;
    for (const char* name : {"attention.key_length_swa", "attention.key_length_mla_swa"}) {
      rotary.head_dim = keys_.integer(name).value_or(rotary.head_dim);
    }
    const Index widest = rotary_dim(global) * architecture_.rope.global_part;
    const Index dim =
        keys_.integer("rope.dimension_count_swa").value_or((std::min)(widest, rotary.head_dim));
    checked_width("rope.dimension_count_swa", dim);
    if (architecture_.rope.rotary_is_last) rotary.rotary_offset = rotary.head_dim - dim;
    const double default_base =
        architecture_.rope.local_base != 0 ? architecture_.rope.local_base : gguf_base(keys_);
    const double base = keys_.real("rope.freq_base_swa").value_or(default_base);
    if (architecture_.rope.local != GgufLocal::AsGlobal ||
        std::holds_alternative<Unscaled>(global.rule)) {
      const double factor = architecture_.rope.local == GgufLocal::Plain
                                ? 1
                                : keys_.real("rope.scaling.attn_factor").value_or(1);
      rotary.rule = gguf_divided(dim, base, factor);
      return rotary;
    }
    const bool has_tensors = std::holds_alternative<LongRopeScaling>(global.rule) ||
                             keys_.file().rope_tensor(gguf_freqs_tensor).has_value();
    if (has_tensors) {
      fail<ConfigError>(GgufKeys::function, "whether scaling applies to the local layers of '",
                        model_.model_type, "' is unknown");
    }
    rotary.rule = rule(dim, base);
    return rotary;
  }

  PairAxes axes(Index pairs) const {
    auto sections = keys_.integers("rope.dimension_sections").value_or(std::vector<Index>{});
    while (sections.size() > 3 && sections.back() == 0) sections.pop_back();
    Index sum = 0;
    for (const Index section : sections) {
      if (section < 0 || section > pairs - sum) {
        keys_.reject("rope.dimension_sections", "must have no negative entry and add up to ",
                     pairs);
      }
      sum += section;
    }
    const bool needed =
        architecture_.mode == GgufMode::Mrope || architecture_.mode == GgufMode::Imrope;
    if (sum == 0) {
      if (needed) keys_.reject("rope.dimension_sections", "is missing");
      return {};
    }
    if (options_.mrope_order) {
      return *options_.mrope_order == MropeOrder::Chunked
                 ? mrope_chunked(sections)
                 : mrope_interleaved(sections, MropeTail::Fourth);
    }
    if (architecture_.mode == GgufMode::Imrope)
      return mrope_interleaved(sections, MropeTail::Fourth);
    if (architecture_.mode == GgufMode::Normal || architecture_.mode == GgufMode::Neox) {
      keys_.reject("rope.dimension_sections", "is given, but this architecture has one axis");
    }
    return mrope_chunked(sections);
  }

  GgufKeys keys_;
  GgufOptions options_;
  /// The row; for an unknown architecture, a plain one whose options state the rest.
  GgufArchitecture architecture_ = {
      .names = {}, .mode = GgufMode::Neox, .scores = {.reads_scale = true}};
  bool is_known_ = false;
  ModelSettings model_;
};

}  // namespace detail

POSENC_DETAIL_READER ModelSettings read_gguf(const GgufFile& file, const GgufOptions& options) {
  const auto architecture = file.text("general.architecture");
  if (!architecture) {
    detail::fail<ConfigError>(detail::GgufKeys::function, "general.architecture is missing");
  }
  return detail::GgufReader(file, *architecture, options).read();
}

POSENC_DETAIL_READER ModelSettings read_gguf(std::span<const std::byte> bytes,
                                             const GgufOptions& options) {
  return read_gguf(GgufFile::from_bytes(bytes), options);
}

#if POSENC_HAS_FILESYSTEM
POSENC_DETAIL_READER ModelSettings read_gguf(const std::filesystem::path& path,
                                             const GgufOptions& options) {
  return read_gguf(GgufFile::from_path(path), options);
}
#endif

POSENC_END
#endif
