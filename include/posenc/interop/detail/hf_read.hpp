// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_custom_types.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_layered_types.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/hf_plain_types.hpp>
#include <posenc/interop/detail/hf_rules.hpp>
#include <posenc/interop/detail/hf_unknown_type.hpp>
#include <posenc/interop/detail/hf_unsupported_types.hpp>
#include <posenc/interop/detail/hf_window_types.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/json_parser.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/detail/unknown_model.hpp>
#include <posenc/interop/hf_config_options.hpp>
#include <posenc/interop/model_settings.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The beginning of a read: the row of the type, the file under the usual names of its keys, and
// types and files that are not read.
POSENC_BEGIN
namespace detail {

/// Returns the row of a model_type, or nullptr.
POSENC_COLD inline const HfModelType* find_hf_model_type(std::string_view name) {
  const HfModelType* row = find_row(hf_plain_types, name);
  if (row == nullptr) row = find_row(hf_window_types, name);
  if (row == nullptr) row = find_row(hf_layered_types, name);
  return row != nullptr ? row : find_row(hf_custom_types, name);
}

/// Returns the object that has a key, or nullptr: the configuration, or a part of it.
POSENC_COLD inline Json* hf_object_of(Json& config, std::string_view path) {
  const std::size_t dot = path.find('.');
  if (dot == path.npos) return &config;
  const Json* part = config.find(path.substr(0, dot));
  return part != nullptr && part->is_object() ? &config[path.substr(0, dot)] : nullptr;
}

/// Moves a value to the usual name of its key, as HfTypeFile::key_aliases describes.
POSENC_COLD inline void hf_rename_key(Json& config, std::string_view alias,
                                      std::string_view canonical) {
  Json* from = hf_object_of(config, alias);
  const std::string key(alias.substr(alias.find('.') + 1));
  const Json* found = from == nullptr ? nullptr : from->find(key);
  if (found == nullptr || found->is_null()) return;
  const Json value = *found;
  from->erase(key);
  const bool is_part = from != &config;
  const std::string name(is_part ? alias.substr(0, alias.find('.')) : "the configuration");
  hf_set_canonical(*hf_object_of(config, canonical), JsonKeys(*from, name), key,
                   std::string(canonical.substr(canonical.find('.') + 1)), value);
}

/// Calls f(alias, canonical) for each pair of a list.
template <class F>
void for_each_alias(std::string_view pairs, const F& f) {
  for_each_name(pairs, [&f](std::string_view pair) {
    const std::size_t sign = pair.find('=');
    f(pair.substr(0, sign), pair.substr(sign + 1));
  });
}

/// Renames keys. Removes parts all of whose keys have other places, or no effect.
POSENC_COLD inline void hf_rename_keys(Json& config, std::string_view aliases) {
  for_each_alias(aliases, [&config](std::string_view alias, std::string_view canonical) {
    hf_rename_key(config, alias, canonical);
  });
  for_each_alias(aliases, [&config](std::string_view alias, std::string_view canonical) {
    const Json* part = hf_object_of(config, alias);
    if (part == nullptr || part == &config || canonical.find('.') != canonical.npos) return;
    const std::string name(alias.substr(0, alias.find('.')));
    JsonKeys(*part, name).reject_unread(hf_is_ignorable);
    config.erase(name);
  });
}

/// Renames layer types in lists and in rope dicts.
POSENC_COLD inline void hf_rename_layer_types(Json& config, std::string_view aliases) {
  for_each_alias(aliases, [&config](std::string_view alias, std::string_view canonical) {
    for (const char* list : {"layer_types", "layers_block_type"}) {
      if (!config.contains(list)) continue;
      Json types = Json::array();
      for (const Json& type : config[list].elements()) {
        types.push_back(type.is_text(alias) ? Json(std::string(canonical)) : type);
      }
      if (config[list].is_array()) config[list] = types;
    }
    for (const std::string dict : {"rope_parameters.", "rope_scaling."}) {
      hf_rename_key(config, dict + std::string(alias), dict + std::string(canonical));
    }
  });
}

/// Returns a copy of a configuration in the form that the readers know: with the usual names, and
/// the defaults that its row states. A part of a file gets the default sizes of its class where it
/// omits them.
POSENC_COLD inline Json hf_canonical(const Json& given, const HfModelType& row, bool is_part) {
  Json config = given;
  hf_rename_keys(config, row.file.key_aliases);
  hf_rename_layer_types(config, row.layers.type_aliases);
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    if (!row.rope.has_stray_keys || !config.contains(name) || !hf_has_dicts(config[name])) continue;
    for (const char* stray : {"rope_type", "rope_theta"}) config[name].erase(stray);
  }
  if (row.file.convert != nullptr) {
    row.file.convert(JsonKeys(given, "the configuration"), config);
  }
  const Json defaults = row.file.default_keys.empty()
                            ? Json::object()
                            : JsonParser(JsonKeys::function, row.file.default_keys).parse();
  for (const auto& [key, value] : defaults.members()) {
    if (!config.contains(key)) config[key] = value;
  }
  const auto& sizes = row.file.sizes;
  for (const auto& [key, size] :
       {std::pair("hidden_size", sizes.hidden_size), std::pair("num_attention_heads", sizes.heads),
        std::pair("num_hidden_layers", sizes.layers),
        std::pair("max_position_embeddings", sizes.length)}) {
    if (is_part && size != 0 && !config.contains(key)) config[key] = size;
  }
  return config;
}

/// Read in progress of the configuration of one text model: the file, the row of its type, and what
/// has been read so far.
struct HfRead {
  JsonKeys config;
  HfConfigOptions options;
  bool is_known;     ///< the type has a row
  HfModelType type;  ///< row, with the pairing of the caller or of the file
  ModelSettings model = {};
  Index max_position = 0, head_dim = 0, rotary_offset = 0, rotary_width = 0;
  std::optional<Index> original = std::nullopt;      ///< trained length beside the rope dicts
  std::optional<double> outer_share = std::nullopt;  ///< rotary share beside the rope dicts
  bool is_nested = false;                            ///< the file has a dict for each type of layer
};

[[noreturn]] POSENC_COLD inline void hf_reject_unsupported_type(const HfRead& read,
                                                                const UnsupportedModel& type) {
  constexpr auto key = "position_embedding_type";
  const Json* encoding = read.config.find(key);
  if (!type.has_rotary && encoding != nullptr &&
      (encoding->is_text("rotary") || encoding->is_text("rope"))) {
    read.config.reject(key, "selects a rotary encoding, which no class of this type has");
  }
  if (type.has_rotary) {
    fail<ConfigError>(JsonKeys::function, "the model_type '", read.model.model_type,
                      "' is not supported: it has ", type.has);
  }
  fail<ConfigError>(JsonKeys::function, "this '", read.model.model_type,
                    "' has no rotary encoding: it has ", type.has);
}

/// Rejects options that state what a known type defines.
POSENC_COLD inline void hf_reject_statements(const HfRead& read) {
  const char* option = read.options.rotary_share    ? "rotary_share"
                       : read.options.softmax_scale ? "softmax_scale"
                                                    : nullptr;
  check_no_statement(JsonKeys::function, option, "model_type", read.model.model_type);
}

/// Rejects an unknown type unless file and options state everything that a class would define.
POSENC_COLD inline void hf_require_statements(const HfRead& read) {
  const Json& config = read.config.object();
  RequiredStatements required;
  required.need("pairing", read.options.pairing.has_value());
  required.need("mrope_order", read.options.mrope_order || hf_states_axes(config));
  required.need("rotary_share", read.options.rotary_share || hf_states_share(config));
  required.need("softmax_scale", read.options.softmax_scale.has_value());
  for (const auto& [key, value] : config.members()) {
    if (!hf_is_understood(key, value) && !lists_name(read.options.ignored_keys, key)) {
      required.add_foreign_key(key);
    }
  }
  required.check(JsonKeys::function, "model_type", read.model.model_type);
}

/// Begins to read a configuration.
///   Throws: ConfigError for an unsupported type, and for an unknown one unless file and options
///           state everything that a class would define
POSENC_COLD inline HfRead hf_begin_read(const Json& config, const HfModelType* row,
                                        const std::string& model_type,
                                        const HfConfigOptions& options) {
  HfRead read{
      .config = JsonKeys(config, "the configuration"),
      .options = options,
      .is_known = row != nullptr,
      .type = row != nullptr
                  ? *row
                  : HfModelType{.names = {}, .rope = {.base = 0}, .norms = {.qk = std::nullopt}}};
  read.model.model_type = model_type;
  if (const UnsupportedModel* refused = find_row(hf_unsupported_types, model_type)) {
    hf_reject_unsupported_type(read, *refused);
  }
  if (read.is_known) {
    hf_reject_statements(read);
  } else {
    hf_require_statements(read);
  }
  if (options.pairing) read.type.rope.pairing = options.pairing;
  return read;
}

/// True if the key "rope", which some models have, switches the rotary encoding off.
POSENC_COLD inline bool hf_has_rope_off(const JsonKeys& config) {
  const Json* rope = config.find("rope");
  if (rope == nullptr) return false;
  if (!rope->is_boolean()) config.reject("rope", "must be true or false");
  return !rope->flag();
}

/// Rejects a model without rotary encoding.
POSENC_COLD inline void hf_check_has_rotary(const HfRead& read) {
  constexpr auto encoding_key = "position_embedding_type", depth_key = "num_hidden_layers";
  const HfTypeFile& file = read.type.file;
  std::string encoding(file.encoding);
  if (!lists_name(file.ignored_keys, encoding_key)) {
    encoding = read.config.text(encoding_key).value_or(encoding);
  }
  const bool is_half = read.type.rope.pairing == PairingKind::HalfRotate;
  const bool is_interleaved_rope = encoding == "rope_gptj" && !is_half;
  const bool has_no_dict =
      file.needs_rope_parameters && read.config.find("rope_parameters") == nullptr;
  if (has_no_dict || read.config.flag("alibi").value_or(false) ||
      !read.config.flag("rotary").value_or(true) || hf_has_rope_off(read.config) ||
      (encoding != "rope" && encoding != "rotary" && !is_interleaved_rope)) {
    fail<ConfigError>(JsonKeys::function, "this '", read.model.model_type,
                      "' has no rotary encoding");
  }
  if (file.only_depth != 0 &&
      read.config.required(depth_key, read.config.integer(depth_key)) != file.only_depth) {
    read.config.reject(depth_key, "is not ", file.only_depth, ": of this type, only models of ",
                       file.only_depth, " layers have a rotary encoding");
  }
  for (const auto& [key, neutral] :
       {std::pair("rope_is_neox_style", is_half), std::pair("rope_traditional", !is_half)}) {
    hf_require_neutral(read.config, key, read.config.flag(key), neutral);
  }
  const auto kinds = read.config.integers("attn_type_list").value_or(std::vector<Index>{});
  if (std::any_of(kinds.begin(), kinds.end(), [](Index kind) { return kind != 1; })) {
    read.config.reject("attn_type_list", "has layers that have no softmax");
  }
  if (read.type.attention.heads == HfHeads::Latent && !read.config.flag("use_mla").value_or(true)) {
    read.config.reject("use_mla", "must be true in a model of this type");
  }
  if (read.type.rope.mrope == HfMrope::TimeLast) {
    hf_require_neutral(read.config, "rope_3d", read.config.flag("rope_3d"), true);
  }
  constexpr auto dual_chunk = "dual_chunk_attention_config";
  if (read.config.find(dual_chunk) != nullptr) {
    read.config.reject(
        dual_chunk,
        "makes vLLM count positions by chunks and has no effect in transformers; remove it "
        "for texts within one chunk");
  }
  hf_require_neutral(read.config, "rope_position_scale", read.config.real("rope_position_scale"),
                     1.0);
}

}  // namespace detail
POSENC_END
