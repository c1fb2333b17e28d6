// SPDX-License-Identifier: MIT
// Writes the GGUF files that fuzzing starts with: write_seeds FOLDER
#include "interop/gguf_writer.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using support::GgufWriter;

namespace {

GgufWriter model(const std::string& name, std::uint32_t head_dim) {
  GgufWriter writer;
  writer.architecture(name)
      .integer(name + ".block_count", 6)
      .integer(name + ".context_length", 4096)
      .integer(name + ".embedding_length", 4 * head_dim)
      .integer(name + ".attention.head_count", 4)
      .real(name + ".rope.freq_base", 10000);
  return writer;
}

void write(const std::filesystem::path& path, const GgufWriter& writer) {
  const auto bytes = writer.bytes();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file) std::exit(EXIT_FAILURE);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  const std::filesystem::path folder(argv[1]);
  std::filesystem::create_directories(folder);
  const std::vector<float> divisors(8, 2);

  write(folder / "llama", model("llama", 16).floats("rope_freqs.weight", divisors));
  write(folder / "phi3",
        model("phi3", 16)
            .text("phi3.rope.scaling.type", "longrope")
            .integer("phi3.rope.scaling.original_context_length", 512)
            .real("phi3.rope.scaling.attn_factor", 1.25F)
            .floats("rope_factors_long.weight", divisors)
            .halves("rope_factors_short.weight", std::vector<std::uint16_t>(8, 0x3c00)));
  write(folder / "deepseek2", model("deepseek2", 24)
                                  .integer("deepseek2.rope.dimension_count", 8)
                                  .text("deepseek2.rope.scaling.type", "yarn")
                                  .real("deepseek2.rope.scaling.factor", 40)
                                  .real("deepseek2.rope.scaling.yarn_beta_fast", 16)
                                  .real("deepseek2.rope.scaling.yarn_log_multiplier", 0.1F));
  write(folder / "gemma3", model("gemma3", 16)
                               .integer("gemma3.attention.sliding_window", 512)
                               .real("gemma3.rope.scaling.factor", 8)
                               .real("gemma3.rope.freq_base_swa", 100)
                               .array<std::uint8_t>("gemma3.attention.sliding_window_pattern",
                                                    GgufWriter::Bool, {1, 1, 1, 1, 1, 0}));
  write(folder / "llama4", model("llama4", 16)
                               .integer("llama4.attention.sliding_window", 8192)
                               .integer("llama4.attention.sliding_window_pattern", 4));
  write(folder / "mistral3", model("mistral3", 16)
                                 .text("mistral3.rope.scaling.type", "yarn")
                                 .real("mistral3.rope.scaling.factor", 16)
                                 .integer("mistral3.rope.scaling.original_context_length", 512)
                                 .real("mistral3.rope.scaling.yarn_log_multiplier", 1)
                                 .real("mistral3.attention.temperature_scale", 0.1F)
                                 .integer("mistral3.attention.temperature_length", 512));
  write(folder / "gemma2", model("gemma2", 16)
                               .real("gemma2.attn_logit_softcapping", 50)
                               .integer("gemma2.attention.key_length", 32));
  write(folder / "granitehybrid",
        model("granitehybrid", 16)
            .flag("granitehybrid.rope.scaling.finetuned", true)
            .real("granitehybrid.attention.scale", 0.1F)
            .array<std::uint32_t>("granitehybrid.attention.head_count_kv", GgufWriter::UInt32,
                                  {0, 0, 2, 0, 0, 2}));
  write(folder / "qwen35", model("qwen35", 16)
                               .integer("qwen35.full_attention_interval", 3)
                               .integer("qwen35.nextn_predict_layers", 1)
                               .array<std::int32_t>("qwen35.rope.dimension_sections",
                                                    GgufWriter::Int32, {3, 3, 2, 0}));
  write(folder / "qwen3vl",
        model("qwen3vl", 16)
            .array<std::int32_t>("qwen3vl.rope.dimension_sections", GgufWriter::Int32, {4, 2, 2, 0})
            .texts("tokenizer.ggml.tokens", {"a", "b"}));
}
