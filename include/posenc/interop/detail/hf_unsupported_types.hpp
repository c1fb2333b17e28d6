// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/names.hpp>

#include <array>

// Known, unsupported model types of Hugging Face, with the reason: of the class in transformers
// 5.24.0, or what is known of remote code. Fourier series: vllm, interns1_pro.py (01d312c) and
// rotary_embedding/fope.py.
POSENC_BEGIN
namespace detail {

inline constexpr auto hf_unsupported_types = std::to_array<UnsupportedModel>({
    {.names = "albert align_text_model altclip_text_model audio-spectrogram-transformer bark bart "
              "bert bert-generation big_bird bigbird_pegasus biogpt blenderbot blenderbot-small "
              "blip_text_model camembert canine chinese_clip_text_model clap_text_model clip "
              "clip_text_model convbert data2vec-text decision_transformer deit dinov2 "
              "dinov2_with_registers distilbert dpt electra ernie ernie_m flaubert git gpt-sw3 "
              "gpt2 gpt_bigcode gpt_neo groupvit ibert imagegpt layoutlm led lilt longformer luke "
              "lxmert markuplm mbart megatron-bert mobilebert mra mvp nystromformer openai-gpt opt "
              "owlvit plbart radio rembert roberta roberta-prelayernorm roc_bert siglip siglip2 "
              "siglip_text_model splinter squeezebert tapas timesformer vilt visual_bert vit "
              "vit_msn whisper xlm xlm-roberta xlm-roberta-xl xmod yolos yoso",
     .has = "a table of learned positions"},
    {.names = "beit data2vec-vision swin",
     .has = "a table of biases for the positions of a window"},
    {.names = "bloom gpt_refact jais mpt", .has = "ALiBi"},
    {.names = "bros", .has = "positions of boxes on a page, which are learned or sines"},
    {.names =
         "cpmant longt5 mt5 pix2struct_text_model pop2piano switch_transformers t5 udop umt5 wavlm",
     .has = "a bias for each distance"},
    {.names = "ctrl fsmt kosmos-2 kosmos-2.5 kosmos_2_5_text_model kosmos_2_text_model m2m_100 "
              "marian musicgen musicgen_decoder nllb-moe pegasus pegasus_x qwen3_asr_encoder "
              "speech_to_text videomae vit_mae xglm",
     .has = "a table of sines and cosines"},
    {.names = "data2vec-audio hubert sew unispeech unispeech-sat wav2vec2",
     .has = "positions that a convolution of the frames computes"},
    {.names =
         "deberta deberta-v2 funnel inkling2_loop_text inkling2_text inkling_mm_model inkling_text "
         "parakeet_ctc parakeet_encoder "
         "nemotron_asr_streaming_encoder seamless_m4t seamless_m4t_v2 sew-d speecht5 transfo-xl "
         "vits wav2vec2-bert xlnet",
     .has = "products of queries with relative positions"},
    {.names = "cohere_asr", .has = "an encoder, and a decoder with a table of positions"},
    {.names = "delta_net falcon_mamba gated_deltanet gla gsa hgrn hgrn2 lightnet linear_attn mamba "
              "mamba2 rwkv rwkv6 rwkv7 xlstm",
     .has = "linear attention or a state space in place of attention"},
    {.names = "fnet", .has = "Fourier transforms in place of attention"},
    {.names = "jamba nemotron_h phi4flash zamba",
     .has = "state spaces, and attention without positions"},
    {.names = "kimi_linear", .has = "attention without positions between linear layers"},
    {.names = "layoutlmv2 layoutlmv3", .has = "biases for distances on a page"},
    {.names = "moshi_depth", .has = "weights of its own for each position"},
    {.names = "mpnet", .has = "a table of learned positions, and a bias for each distance"},
    {.names = "nemotron3_5_asr",
     .has = "an encoder with products of queries with relative positions, and a recurrent decoder"},
    {.names = "prophetnet", .has = "learned positions, and a bias for each distance"},
    {.names = "reformer", .has = "positions of two axes that are learned, and attention by hashes"},
    {.names = "retnet", .has = "decay of scores with the distance, and no softmax"},
    {.names = "swinv2", .has = "a network that computes biases for the positions of a window"},
    {.names = "trocr", .has = "learned positions, or sines and cosines"},
    {.names = "bailing_hybrid bailing_moe_linear",
     .has = "linear layers between those of attention",
     .has_rotary = true},
    {.names = "beam",
     .has = "queries scaled by their position in the layers that are not rotated",
     .has_rotary = true},
    {.names = "blt",
     .has = "four models of bytes and of patches, each with positions of its own",
     .has_rotary = true},
    {.names = "cogvlm",
     .has = "positions that the tokens of an image share, and a base that files do not define",
     .has_rotary = true},
    {.names = "dia encoder-decoder moonshine moonshine_streaming rag speech-encoder-decoder "
              "t5gemma t5gemma2 vision-encoder-decoder",
     .has = "an encoder, and a decoder that attends to it",
     .has_rotary = true},
    {.names = "diffllama",
     .has = "the difference of two softmaxes in each head",
     .has_rotary = true},
    {.names = "diffusion_gemma diffusion_gemma_text",
     .has = "an encoder, and a decoder that denoises all tokens at once",
     .has_rotary = true},
    {.names = "doge",
     .has = "a learned bias of each key, computed from its value",
     .has_rotary = true},
    {.names = "dory",
     .has = "loops over its layers, and learned factors of the queries' channels",
     .has_rotary = true},
    {.names = "dots3_note_text", .has = "latent heads of two shapes", .has_rotary = true},
    {.names = "esm3", .has = "geometric attention between frames of residues", .has_rotary = true},
    {.names = "gemma4_assistant",
     .has = "layers that draft tokens for another model",
     .has_rotary = true},
    {.names = "glm_image_text",
     .has = "axes of the image that it generates, in an order of its own",
     .has_rotary = true},
    {.names = "hrm_text",
     .has = "two stacks of layers that run in cycles, and a prefix whose tokens see each other",
     .has_rotary = true},
    {.names = "intern_s1_pro interns1_pro interns1_pro_text",
     .has = "Fourier series (FoPE): sums of sines and cosines, with coefficients in its weights",
     .has_rotary = true},
    {.names = "lara_mini",
     .has = "linear layers, rotated layers with a window, and others that are not rotated",
     .has_rotary = true},
    {.names = "minimax minimax_m1 minimax_text_01",
     .has = "linear layers, and releases of its class that rotate different channels",
     .has_rotary = true},
    {.names = "mistral_large4_text", .has = "frequencies with learned factors", .has_rotary = true},
    {.names = "muse_glimmer_text muse_spark_text",
     .has = "layers of a pattern that is not known well enough",
     .has_rotary = true},
    {.names = "nanochat", .has = "a rotation in the opposite direction", .has_rotary = true},
    {.names = "openai_privacy_filter",
     .has = "pairs that are not known well enough",
     .has_rotary = true},
    {.names = "pixtral", .has = "positions of patches on a grid", .has_rotary = true},
    {.names = "recurrent_gemma",
     .has = "recurrent layers by a pattern of blocks",
     .has_rotary = true},
    {.names = "step3p7",
     .has = "its text model in text_config, which this file lacks",
     .has_rotary = true},
    {.names = "stripedhyena", .has = "convolutions in place of most attention", .has_rotary = true},
    {.names = "t5gemma2_decoder",
     .has = "an encoder's keys beside its own, in one softmax",
     .has_rotary = true},
    {.names = "timesfm2_5",
     .has = "a learned factor of each channel of the queries, and norms after the rotation",
     .has_rotary = true},
    {.names = "unlimited_ocr_text",
     .has = "windows beside a reference that every token sees",
     .has_rotary = true},
    {.names = "vjepa2",
     .has = "adjacent pairs whose two channels use different angles, which is not a rotation",
     .has_rotary = true},
    {.names = "wav2vec2-conformer",
     .has = "a choice of encodings (position_embeddings_type) of frames",
     .has_rotary = true},
});

}  // namespace detail
POSENC_END
