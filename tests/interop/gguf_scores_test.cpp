// SPDX-License-Identifier: MIT
// Scores and layers without rotary encoding, from GGUF metadata and from llama.cpp's code of each
// architecture. No key of either is ignored.
#include "interop/gguf_writer.hpp"
#include "interop/settings.hpp"
#include "support/catch.hpp"
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/gguf.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gguf_scores_test {

using Catch::Matchers::Message;
using posenc::ConfigError;
using posenc::GgufOptions;
using posenc::Index;
using posenc::ModelSettings;
using posenc::PairingKind;
using posenc::QueryTemperature;
using posenc::read_gguf;
using support::GgufWriter;

namespace {

GgufWriter model(const std::string& name, std::uint32_t layers = 12) {
  GgufWriter writer;
  writer.architecture(name)
      .integer(name + ".block_count", layers)
      .integer(name + ".context_length", 4096)
      .integer(name + ".embedding_length", 4096)
      .integer(name + ".attention.head_count", 32);
  return writer;
}

GgufWriter yarn(const std::string& name) {
  return model(name)
      .text(name + ".rope.scaling.type", "yarn")
      .real(name + ".rope.scaling.factor", 4)
      .integer(name + ".rope.scaling.original_context_length", 2048);
}

ModelSettings read(const GgufWriter& writer, const GgufOptions& options = {}) {
  return read_gguf(writer.bytes(), options);
}

void check_rejected(const GgufWriter& writer, const std::string& message,
                    const GgufOptions& options = {}) {
  CHECK_THROWS_MATCHES(read(writer, options), ConfigError,
                       Message("posenc::read_gguf: " + message));
}

/// Returns the layers of the file without rotary encoding.
std::vector<Index> layers_without_rotary(const GgufWriter& writer) {
  return read(writer).layers_without_rotary;
}

}  // namespace

TEST_CASE("read_gguf scores: the scale is the architecture's", "[interop][gguf]") {
  CHECK(!read(model("llama")).softmax_scale);
  CHECK(!read(model("llama").real("llama.attention.scale", 0)).softmax_scale);
  CHECK(read(model("granite").real("granite.attention.scale", 0.25F)).softmax_scale == 0.25);
  CHECK(read(model("gemma3n")).softmax_scale == 1);
  const auto gemma4 = model("gemma4").floats("rope_freqs.weight", std::vector<float>(64, 2));
  CHECK(read(gemma4).softmax_scale == 1);
  CHECK(!read(model("gemma2", 42)).softmax_scale);
  CHECK(!read(model("gemma3", 48)).softmax_scale);
  const auto largest = [](const std::string& name, std::uint32_t layers, std::uint32_t width) {
    GgufWriter writer;
    writer.architecture(name).integer(name + ".block_count", layers);
    writer.integer(name + ".embedding_length", width).integer(name + ".attention.head_count", 32);
    return writer.integer(name + ".attention.key_length", 128);
  };
  CHECK(read(largest("gemma2", 46, 4608)).softmax_scale == 1 / 12.0);
  CHECK(read(largest("gemma3", 62, 5376)).softmax_scale == 1 / std::sqrt(168.0));
  CHECK(read(model("grok")).softmax_scale == 0.08838834764831845);
  CHECK(read(model("grok").real("grok.attention.output_scale", 0.5F)).softmax_scale == 0.5);

  check_rejected(GgufWriter(gemma4).real("gemma4.attention.scale", 0.5F),
                 "gemma4.attention.scale contradicts the scale of this architecture, 1");
  check_rejected(model("llama").real("llama.attention.scale", -1),
                 "llama.attention.scale must not be negative");
  check_rejected(model("llama").real("llama.attention.output_scale", 1),
                 "llama.attention.output_scale has no known meaning in this architecture");
  GgufWriter narrow;
  narrow.architecture("gemma3").integer("gemma3.block_count", 62);
  check_rejected(
      narrow.integer("gemma3.attention.key_length", 128),
      "gemma3.embedding_length and attention.head_count must be set, since scores are scaled "
      "by their ratio");
}

TEST_CASE("read_gguf scores: softcaps are read or rejected", "[interop][gguf]") {
  const auto cap = [](const std::string& name, std::optional<float> value) {
    auto writer = model(name);
    if (value) writer.real(name + ".attn_logit_softcapping", *value);
    return writer;
  };
  CHECK(read(cap("gemma2", {})).softcap == 50);
  CHECK(read(cap("gemma2", 25.0F)).softcap == 25);
  CHECK(read(cap("grok", {})).softcap == 30);
  CHECK(!read(cap("llama", {})).softcap);
  CHECK(!read(cap("llama", 0.0F)).softcap);
  check_rejected(cap("llama", 30.0F),
                 "llama.attn_logit_softcapping is not known to be used by this architecture");
  check_rejected(cap("gemma2", 0.0F),
                 "gemma2.attn_logit_softcapping is 0, which llama.cpp would divide by");
  check_rejected(cap("gemma2", -1.0F), "gemma2.attn_logit_softcapping must not be negative");
  CHECK_NOTHROW(read(model("gemma2").real("gemma2.final_logit_softcapping", 30)));
}

TEST_CASE("read_gguf scores: a temperature means what it means in its architecture",
          "[interop][gguf]") {
  const auto with = [](GgufWriter writer, const std::string& name, std::optional<float> scale,
                       std::optional<std::uint32_t> length) {
    if (scale) writer.real(name + ".attention.temperature_scale", *scale);
    if (length) writer.integer(name + ".attention.temperature_length", *length);
    return writer;
  };
  const auto of = [&](const std::string& name, std::optional<float> scale,
                      std::optional<std::uint32_t> length) {
    return with(model(name), name, scale, length);
  };
  const auto floor = [](double scale, double length) {
    return QueryTemperature{.scale = scale, .length = length};
  };

  // Llama 4: values in llama.cpp's code, for the layers without rotary encoding.
  QueryTemperature llama4 = floor(0.1, 8192);
  llama4.offset = 1;
  llama4.only_without_rotary = true;
  CHECK(read(of("llama4", {}, {})).query_temperature == llama4);
  CHECK(read(of("llama4", 0.1F, 8192)).query_temperature == llama4);
  check_rejected(of("llama4", 0.2F, {}), "llama4.attention.temperature_scale is not Llama 4's 0.1");
  check_rejected(of("llama4", {}, 4096),
                 "llama4.attention.temperature_length is not Llama 4's 8192");

  // Ministral uses the trained length, Mistral Large 3 that of the file.
  CHECK(read(with(yarn("mistral3"), "mistral3", 0.5F, {})).query_temperature == floor(0.5, 2048));
  CHECK(read(of("mistral3", 0.5F, {})).query_temperature == floor(0.5, 4096));
  CHECK(!read(of("mistral3", 0.0F, 17)).query_temperature);
  check_rejected(of("mistral3", 0.5F, 17),
                 "mistral3.attention.temperature_length contradicts the trained length 4096, which "
                 "llama.cpp uses");
  for (const char* name : {"deepseek2", "mistral4"}) {
    CHECK(!read(of(name, {}, {})).query_temperature);
    CHECK(!read(of(name, 0.0F, 16384)).query_temperature);
    CHECK(read(of(name, 0.5F, 16384)).query_temperature == floor(0.5, 16384));
    check_rejected(of(name, 0.5F, {}),
                   std::string(name) +
                       ".attention.temperature_length must be set and positive, "
                       "since " +
                       name + ".attention.temperature_scale is not 0");
  }

  // Grok: scores after the soft cap are multiplied, which llama.cpp omits.
  CHECK(!read(of("grok", {}, {})).query_temperature);
  CHECK(!read(of("grok", 0.0F, 0)).query_temperature);
  const auto grok = read(of("grok", {}, 1024));
  CHECK(grok.query_temperature ==
        QueryTemperature{.formula = posenc::QueryTemperatureFormula::LogRatio, .length = 1024});
  const auto options = posenc::attention_options<float>(grok, 0);
  CHECK(options.temperature_of == posenc::TemperatureOf::CappedScores);
  CHECK(options.softcap == 30);
  CHECK(options.temperature(2048) == 1.1);
  check_rejected(of("grok", {}, 1), "grok.attention.temperature_length must be at least 2");
  check_rejected(of("grok", 0.5F, 1024),
                 "grok.attention.temperature_scale is not 0, and is not known to be used by this "
                 "architecture");

  for (const char* name : {"llama", "qwen3", "deepseek32"}) {
    CHECK(!read(of(name, 0.0F, {})).query_temperature);
    check_rejected(of(name, 0.5F, {}),
                   std::string(name) +
                       ".attention.temperature_scale is not 0, and is not known to be used by this "
                       "architecture");
    check_rejected(of(name, {}, 1024), std::string(name) +
                                           ".attention.temperature_length is set, and its effect "
                                           "in this architecture is not supported");
  }
}

TEST_CASE("read_gguf scores: keys that switch the rotation off are read", "[interop][gguf]") {
  for (const std::string name : {"granite", "granitemoe", "granitehybrid"}) {
    CHECK_NOTHROW(read(model(name)));
    CHECK_NOTHROW(read(model(name).flag(name + ".rope.scaling.finetuned", true)));
    check_rejected(
        model(name).flag(name + ".rope.scaling.finetuned", false),
        name +
            ".rope.scaling.finetuned is false, which switches the rotary encoding of this "
            "architecture off");
  }
  // In other architectures the key describes the training alone.
  CHECK_NOTHROW(read(model("llama").flag("llama.rope.scaling.finetuned", false)));

  CHECK_NOTHROW(read(model("baichuan", 32)));
  const std::string depth =
      ": of this architecture, only models of 32 layers have a rotary encoding";
  check_rejected(model("baichuan", 40), "baichuan.block_count is 40" + depth);
  check_rejected(model("baichuan", 33), "baichuan.block_count is 33" + depth);
  check_rejected(model("falcon").real("falcon.attention.max_alibi_bias", 8),
                 "falcon.attention.max_alibi_bias selects ALiBi, which is not a rotary encoding");
  check_rejected(model("falcon").integer("falcon.attention.relative_buckets_count", 32),
                 "falcon.attention.relative_buckets_count selects relative biases, which are not a "
                 "rotary encoding");
}

TEST_CASE("read_gguf scores: layers without rotation come from architecture and file",
          "[interop][gguf]") {
  const std::vector<Index> fourth{3, 7, 11};
  const std::vector<Index> linear{0, 1, 2, 4, 5, 6, 8, 9, 10};
  CHECK(layers_without_rotary(model("llama")).empty());
  CHECK(layers_without_rotary(model("smollm3")) == fourth);
  CHECK(layers_without_rotary(model("llama4")) == fourth);
  check_rejected(model("llama4").integer("llama4.attention.sliding_window", 0),
                 "llama4.attention.sliding_window is 0, for which the rotated layers are unknown");

  // Global layers of Command R7B.
  const auto cohere = model("cohere2").integer("cohere2.attention.sliding_window", 4096);
  constexpr auto pattern = "cohere2.attention.sliding_window_pattern";
  CHECK(layers_without_rotary(cohere) == fourth);
  CHECK(layers_without_rotary(GgufWriter(cohere).integer(pattern, 6)) == std::vector<Index>{5, 11});
  CHECK(layers_without_rotary(GgufWriter(cohere).array<std::uint8_t>(
            pattern, GgufWriter::Bool, {0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1})) ==
        std::vector<Index>{0, 4});

  // Linear attention.
  for (const std::string name : {"qwen3next", "qwen35", "qwen35moe"}) {
    auto writer = model(name);
    if (name != "qwen3next") {
      writer.array<std::int32_t>(name + ".rope.dimension_sections", GgufWriter::Int32,
                                 {24, 20, 20, 0});
    }
    CHECK(layers_without_rotary(writer) == linear);
    CHECK(layers_without_rotary(GgufWriter(writer).integer(name + ".full_attention_interval", 2)) ==
          std::vector<Index>{0, 2, 4, 6, 8, 10});
    CHECK(layers_without_rotary(GgufWriter(writer).integer(name + ".nextn_predict_layers", 2)) ==
          std::vector<Index>{0, 1, 2, 4, 5, 6, 8, 9});
    CHECK(layers_without_rotary(GgufWriter(writer).array<std::uint32_t>(
              name + ".attention.recurrent_layers", GgufWriter::UInt32,
              {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1})) == std::vector<Index>{0, 11});
    check_rejected(GgufWriter(writer).integer(name + ".full_attention_interval", 0),
                   name + ".full_attention_interval must be positive");
  }
  check_rejected(model("qwen3").integer("qwen3.full_attention_interval", 4),
                 "qwen3.full_attention_interval is not known for this architecture");

  // Layers without heads: convolutions, state spaces.
  const auto heads = [](const std::string& name, const std::vector<std::uint32_t>& list) {
    return model(name).array<std::uint32_t>(name + ".attention.head_count_kv", GgufWriter::UInt32,
                                            list);
  };
  for (const char* name : {"lfm2", "granitehybrid", "falcon-h1"}) {
    CHECK(layers_without_rotary(heads(name, {8, 8, 0, 8, 8, 0, 8, 8, 8, 8, 8, 0})) ==
          std::vector<Index>{2, 5, 11});
  }
  check_rejected(heads("lfm2", {8, 0}),
                 "lfm2.attention.head_count_kv must have one entry per layer");
  check_rejected(heads("lfm2", std::vector<std::uint32_t>(12, 0)),
                 "lfm2.block_count includes no layer with a rotary encoding");
}

TEST_CASE(
    "read_gguf scores: architectures that are not plain are rejected by name, whatever the pairing",
    "[interop][gguf]") {
  const GgufOptions half{
      .pairing = PairingKind::HalfRotate, .rotary_share = 1, .softmax_scale = 0.125};
  for (const auto& refused : posenc::detail::gguf_unsupported_architectures) {
    posenc::detail::for_each_name(refused.names, [&](std::string_view given) {
      CHECK(posenc::detail::find_row(posenc::detail::gguf_architectures, given) == nullptr);
      const std::string name(given);
      const std::string message =
          "'" + name + (refused.has_rotary ? "' is not supported" : "' has no rotary encoding") +
          ": it has " + std::string(refused.has);
      check_rejected(model(name), message);
      check_rejected(model(name), message, half);
    });
  }
  std::set<std::string_view> names;
  for (const auto& row : posenc::detail::gguf_architectures) {
    posenc::detail::for_each_name(row.names,
                                  [&](std::string_view name) { CHECK(names.insert(name).second); });
  }
  CHECK_NOTHROW(read(model("unheard-of"), half));
  check_rejected(model("unheard-of").integer("unheard-of.attention.sliding_window_pattern", 4),
                 "unheard-of.attention.sliding_window_pattern varies between layers in a way that "
                 "is unknown for this architecture",
                 half);
}

TEST_CASE("read_gguf scores: where the ends of YaRN's ramp cross, llama.cpp interpolates",
          "[interop][gguf]") {
  auto writer = model("llama");
  writer.text("llama.rope.scaling.type", "yarn")
      .real("llama.rope.scaling.factor", 4)
      .integer("llama.rope.scaling.original_context_length", 4);
  const auto w = frequencies(rotary(read(writer))).inv_freq();
  const auto plain = frequencies(rotary(read(model("llama")))).inv_freq();
  CHECK(w[0] == plain[0]);
  for (std::size_t i = 1; i < w.size(); ++i) {
    CHECK(std::abs(w[i] / plain[i] * 4 - 1) < 1e-15);
  }
}

TEST_CASE(
    "read_gguf scores: DeepSeek's magnitudes that llama.cpp would fold into scores are rejected",
    "[interop][gguf]") {
  const auto with = [](const std::string& name, float multiplier) {
    return yarn(name).real(name + ".rope.scaling.yarn_log_multiplier", multiplier);
  };
  CHECK_NOTHROW(read(with("deepseek2", 0.0707F)));
  CHECK_NOTHROW(read(with("mistral4", 0.1F)));
  check_rejected(model("deepseek2")
                     .text("deepseek2.rope.scaling.type", "yarn")
                     .real("deepseek2.rope.scaling.attn_factor", 2),
                 "deepseek2.rope.scaling.attn_factor is not 1, which would scale scores of this "
                 "architecture twice");
  check_rejected(yarn("deepseek2"),
                 "deepseek2.rope.scaling.yarn_log_multiplier is missing or 0, for which versions "
                 "of llama.cpp scale scores differently");
  check_rejected(with("mistral4", 0.0707F),
                 "mistral4.rope.scaling.yarn_log_multiplier is not 0.1, and the effect of other "
                 "values is unknown in this architecture");
  check_rejected(with("deepseek2", 0.1F).real("deepseek2.rope.scaling.attn_factor", 2),
                 "deepseek2.rope.scaling.attn_factor is not 1, which would scale scores of this "
                 "architecture twice");
}

// Each key that is listed as read changes the settings or is rejected. Each ignorable key changes
// nothing. All other keys are rejected.
TEST_CASE("read_gguf scores: no key of positions or scores is passed over", "[interop][gguf]") {
  const auto outcome = [](const GgufWriter& writer) -> std::optional<ModelSettings> {
    try {
      return read(writer);
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  };
  const auto changes = [&](const GgufWriter& before, const GgufWriter& after) {
    const auto old_one = outcome(before), new_one = outcome(after);
    REQUIRE(old_one);
    return !new_one || support::difference(*old_one, *new_one) != "" ||
           old_one->attention != new_one->attention;
  };
  const auto base = [](std::string_view without_key) {
    GgufWriter writer;
    writer.architecture("llama").integer("llama.block_count", 12);
    writer.integer("llama.context_length", 4096).integer("llama.embedding_length", 4096);
    if (without_key != "llama.attention.head_count") {
      writer.integer("llama.attention.head_count", 32);
    }
    if (without_key != "llama.rope.scaling.type") writer.text("llama.rope.scaling.type", "yarn");
    if (without_key != "llama.rope.scaling.factor") {
      writer.real("llama.rope.scaling.factor", 4);
    }
    return writer;
  };
  const auto with = [&](const std::string& key) {
    GgufWriter writer = base(key);
    if (key == "llama.rope.scaling.type") return writer.text(key, "none");
    if (key == "llama.rope.scaling.finetuned") return writer.flag(key, false);
    for (const char* whole : {"dimension_count", "length", "head_count", "window", "layers",
                              "sections", "buckets_count", "chunk_size", "indexer"}) {
      if (key.find(whole) != std::string::npos) return writer.integer(key, 16);
    }
    return writer.real(key, 16);
  };
  // Keys without effect on this model: an indexer's ratios, a pattern of windows, settings of
  // latent and local layers, and facts of its training.
  const std::vector<std::string> no_effect{
      "attention.compress_ratios",      "attention.sliding_window_pattern",
      "attention.value_length_mla",     "attention.value_length_swa",
      "attention.value_length_mla_swa", "rope.scaling.finetuned"};
  const auto check = [&](const std::string& name) {
    CAPTURE(name);
    const bool expected = std::find(no_effect.begin(), no_effect.end(), name) == no_effect.end();
    CHECK(changes(base(""), with("llama." + name)) == expected);
  };
  using posenc::detail::for_each_name;
  for_each_name(posenc::detail::gguf_rope_keys,
                [&](std::string_view name) { check("rope." + std::string(name)); });
  for_each_name(posenc::detail::gguf_attention_keys,
                [&](std::string_view name) { check("attention." + std::string(name)); });
  for_each_name(posenc::detail::gguf_ignored_attention_keys, [&](std::string_view name) {
    CAPTURE(name);
    CHECK(!changes(base(""), with("llama.attention." + std::string(name))));
  });
  for (const std::string name :
       {"rope.new", "rope.scaling.new", "attention.new", "attention.indexer.new", "new_rope_step",
        "no_rope_layers", "alibi", "position_offset", "query_temperature", "key_softcapping"}) {
    check_rejected(model("llama").real("llama." + name, 1),
                   "the key llama." + name + " is unknown");
  }
  CHECK_NOTHROW(read(model("llama")
                         .real("llama.vision.rope.freq_base", 100)
                         .real("llama.expert_weights_scale", 2)
                         .real("llama.logit_scale", 2)
                         .real("other.rope.new", 1)));
}

}  // namespace gguf_scores_test
