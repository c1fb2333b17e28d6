# SPDX-License-Identifier: MIT
# Runs posenc_inspect with valid and invalid command lines; checks exit status and output.
# cmake -D PROGRAM=<program> -D CONFIGS=<folder> -D SCRATCH=<folder> -P check.cmake

cmake_minimum_required(VERSION 3.23)
file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${SCRATCH}/model" "${SCRATCH}/empty")
set(llama "${CONFIGS}/llama-3.1-8b.json")
file(COPY_FILE "${llama}" "${SCRATCH}/model/config.json")

# expect(<status> <regex of output and errors> [INPUT <file>] <arguments>...)
function(expect status regex)
  cmake_parse_arguments(PARSE_ARGV 2 run "" "INPUT" "")
  set(input)
  if(run_INPUT)
    set(input INPUT_FILE "${run_INPUT}")
  endif()
  execute_process(COMMAND "${PROGRAM}" ${run_UNPARSED_ARGUMENTS} ${input} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE errors)
  if(NOT result STREQUAL status OR NOT "${output}${errors}" MATCHES "${regex}")
    message(SEND_ERROR "posenc_inspect ${run_UNPARSED_ARGUMENTS}: status ${result}, not ${status}, or no '${regex}' in\n"
                       "${output}${errors}")
  endif()
endfunction()

expect(0 "^posenc_inspect FILE.*exit status" --help)
expect(0 "^posenc_inspect FILE" -h)
expect(0 "Llama3Scaling: base 500000, factor 8" "${llama}")
expect(0 "Llama3Scaling: base 500000, factor 8" "${SCRATCH}/model")
expect(0 "Llama3Scaling: base 500000, factor 8" "${SCRATCH}/model/")
expect(0 "Llama3Scaling: base 500000, factor 8" - INPUT "${llama}")
expect(0 "All settings are the same" "${SCRATCH}/model" --compare - INPUT "${llama}")

expect(0 "\nllama3_1_8b\n +checked against +a copy of its config.json\n +rule +Llama3Scaling: base 500000, factor 8" --presets)

expect(2 "no FILE is given.*posenc_inspect FILE")
expect(2 "unknown option --size" "${llama}" --size 3)
expect(2 "unknown option -x" "${llama}" -x)
expect(2 "--length needs a value" "${llama}" --length)
expect(2 "--length needs a positive number, not 0" "${llama}" --length 0)
expect(2 "--length needs a positive number, not 99999999999999999999" "${llama}" --length 99999999999999999999)
expect(2 "--pairing needs interleaved or half" "${llama}" --pairing both)
expect(2 "one FILE, not" "${llama}" "${llama}")
expect(2 "standard input can be read once" - --compare - INPUT "${llama}")
expect(1 "absent.json: cannot open this file" "${SCRATCH}/absent.json")
expect(1 "absent.json: cannot open this file" "${llama}" --compare "${SCRATCH}/absent.json")
expect(1 "empty: this folder has no config.json; a GGUF file in it must be named itself" "${SCRATCH}/empty")
expect(1 "it is a program, neither a config.json nor a GGUF file" "${PROGRAM}")
file(WRITE "${SCRATCH}/blank.json" "")
expect(1 "blank.json: it is empty" "${SCRATCH}/blank.json")
expect(1 "standard input: it is empty" - INPUT "${SCRATCH}/blank.json")
file(WRITE "${SCRATCH}/blank.json" " \n")
expect(1 "blank.json: it is blank" "${SCRATCH}/blank.json")
file(WRITE "${SCRATCH}/notes.gguf" "notes on a model")
expect(1 "notes.gguf: it is a text, neither a config.json nor a GGUF file: it begins with no {" "${SCRATCH}/notes.gguf")
file(WRITE "${SCRATCH}/pointer.gguf" "version https://git-lfs.github.com/spec/v1\n")
expect(1 "it is a pointer of Git LFS, not the file" "${SCRATCH}/pointer.gguf")
file(WRITE "${SCRATCH}/page.json" "<!doctype html>")
expect(1 "it is a page of HTML or XML" "${SCRATCH}/page.json")
find_program(POSENC_PRINTF printf)
# bytes(<name> <escapes of printf>): writes a file that CMake cannot write, because it has a zero
# byte or is no text.
function(bytes name escapes)
  execute_process(COMMAND "${POSENC_PRINTF}" "${escapes}" OUTPUT_FILE "${SCRATCH}/${name}")
endfunction()
if(POSENC_PRINTF)
  bytes(random.gguf "\\007\\221\\000\\377")
  expect(1 "random.gguf: it is not text, and neither a config.json nor a GGUF file: its first byte is 0x07"
         "${SCRATCH}/random.gguf")
  bytes(model.safetensors "\\020\\000\\000\\000\\000\\000\\000\\000{}")
  expect(1 "model.safetensors: it is a safetensors file, neither a config.json nor a GGUF file; its model has"
         "${SCRATCH}/model.safetensors")
  bytes(model.bin "PK\\003\\004")
  expect(1 "model.bin: it is a zip archive, as PyTorch's" "${SCRATCH}/model.bin")
  bytes(model.pt "\\200\\002}")
  expect(1 "model.pt: it is a pickle" "${SCRATCH}/model.pt")
endif()
file(WRITE "${SCRATCH}/short.gguf" "GGUF")
expect(1 "short.gguf: .*the file ends within the version" "${SCRATCH}/short.gguf")
expect(1 "standard input: .*the file ends within the version" - INPUT "${SCRATCH}/short.gguf")
file(WRITE "${SCRATCH}/broken.json" "{\n  \"model_type\": \"llama\",\n}")
expect(1 "broken.json: .*not JSON.*line 3, column 1" "${SCRATCH}/broken.json")

# Advice of the library must name the switches of the program.
file(WRITE "${SCRATCH}/unknown.json" "{\"model_type\": \"unheard_of\", \"head_dim\": 64, \"rope_theta\": 10000}")
expect(1 "set with the switches of these names: pairing, rotary_share, softmax_scale" "${SCRATCH}/unknown.json")
set(stated --pairing half --rotary-share 0.5 --softmax-scale 0.125)
expect(0 "HalfRotate.*32 of 64 rotated.*scores times +0.125" "${SCRATCH}/unknown.json" ${stated})
expect(2 "--rotary-share needs a number, not half" "${llama}" --rotary-share half)
expect(2 "--mrope-order needs chunked or interleaved, not both" "${llama}" --mrope-order both)
file(WRITE "${SCRATCH}/axes.json" "{\"model_type\": \"unheard_of\", \"head_dim\": 64, \"twist\": 1, \"rope_parameters\": {\"rope_theta\": 10000, \"mrope_section\": [12, 10, 10], \"partial_rotary_factor\": 1}}")
expect(1 "set with the switches of these names: mrope_order; name with --ignored-keys, if they change neither positions nor scores: 'twist'"
       "${SCRATCH}/axes.json" --pairing half --softmax-scale 0.125)
set(stated --pairing half --softmax-scale 0.125 --ignored-keys twist --mrope-order)
expect(0 "axes of positions +3, with 12 10 10 pairs, in chunks\n" "${SCRATCH}/axes.json" ${stated} chunked)
expect(0 "axes of positions +3, with 12 10 10 pairs, alternating\n" "${SCRATCH}/axes.json" ${stated} interleaved)
file(WRITE "${SCRATCH}/parts.json" "{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\", \"head_dim\": 64}, \"helper\": {\"model_type\": \"qwen2\", \"head_dim\": 128}}")
expect(0 "^llama\n.*part +text_config\n +parts of the file +helper text_config\n" "${SCRATCH}/parts.json")
expect(0 "^qwen2\n.*part +helper\n" "${SCRATCH}/parts.json" --part helper)
expect(2 "--attn-factor needs relative or final, not both" "${llama}" --attn-factor both)
file(WRITE "${SCRATCH}/dynamic.json" "{\"model_type\": \"llama\", \"head_dim\": 64, \"max_position_embeddings\": 4096, \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}")
expect(0 "shown for length +4,096; --length N for another" "${SCRATCH}/dynamic.json")

# A length that the file does not state is marked.
set(short "\"model_type\": \"llama\", \"head_dim\": 64, \"max_position_embeddings\": 4096")
file(WRITE "${SCRATCH}/yarn.json" "{${short}, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2}}")
expect(0 "original_max_position 4096.*\n +assumed +the model was trained on 4,096 tokens, its max_position_embeddings"
       "${SCRATCH}/yarn.json")
expect(0 "\n +assumed .*\n +assumed " "${SCRATCH}/yarn.json" --compare "${SCRATCH}/yarn.json")
file(WRITE "${SCRATCH}/yarn.json"
     "{${short}, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"original_max_position_embeddings\": 4096}}")
expect(0 "original_max_position 4096.*scores times +0.125\nposenc " "${SCRATCH}/yarn.json")
expect(0 "scores times +[0-9.]+\nposenc " "${llama}")

# --compare must show every setting that a file can change: each line changes the first file.
set(yarn [["rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096]])
set(base "\"model_type\": \"llama\", \"head_dim\": 64, \"max_position_embeddings\": 16384, \"rope_theta\": 10000")
file(WRITE "${SCRATCH}/first.json" "{${base}, \"rope_scaling\": {${yarn}}}")
# differs(<regex> <the second file's content>): checks the output of --compare.
function(differs regex content)
  file(WRITE "${SCRATCH}/second.json" "${content}")
  expect(3 "They differ.*${regex}" "${SCRATCH}/first.json" --compare "${SCRATCH}/second.json")
endfunction()
string(REPLACE "\"llama\"" "\"mistral\"" other "${base}")
differs("model_type +llama  .  mistral" "{${other}, \"rope_scaling\": {${yarn}}}")
string(REPLACE "16384" "32768" other "${base}")
differs("trained_length +16384  .  32768" "{${other}, \"rope_scaling\": {${yarn}}}")
string(REPLACE "\"head_dim\": 64" "\"head_dim\": 128" other "${base}")
differs("head_dim +64  .  128.*rotary_dim +64  .  128" "{${other}, \"rope_scaling\": {${yarn}}}")
string(REPLACE "10000" "20000" other "${base}")
differs("base +10000  .  20000.*frequencies +up to" "{${other}, \"rope_scaling\": {${yarn}}}")
differs("the rules +YarnScaling.*  .  Unscaled" "{${base}}")
foreach(change IN ITEMS "beta_fast 16" "beta_slow 2" "truncate false" "attention_factor 2")
  separate_arguments(change)
  list(GET change 0 key)
  list(GET change 1 value)
  differs("rule: ${key} +[^|]*  .  " "{${base}, \"rope_scaling\": {${yarn}, \"${key}\": ${value}}}")
endforeach()

file(WRITE "${SCRATCH}/first.json" "{\"model_type\": \"gemma2\", \"head_dim\": 64, \"query_pre_attn_scalar\": 64}")
differs("softmax_scale +0.125  .  0.25" "{\"model_type\": \"gemma2\", \"head_dim\": 64, \"query_pre_attn_scalar\": 16}")
differs("softcap +50  .  30"
        "{\"model_type\": \"gemma2\", \"head_dim\": 64, \"query_pre_attn_scalar\": 64, \"attn_logit_softcapping\": 30}")

file(WRITE "${SCRATCH}/first.json" "{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 8}")
differs("layers_without_rotary +3 7  .  1 3 5 7"
        "{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 8, \"no_rope_layer_interval\": 2}")
differs("query_temperature +LogFloor, scale 0.1[^|]*  .  LogFloor, scale 0.2"
        "{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 8, \"attn_scale\": 0.2}")

file(WRITE "${SCRATCH}/first.json" "{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 12, \"head_dim\": 64}")
differs("layer_types +[^|]*  .  [^|]* from entry"
        "{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 12, \"head_dim\": 64, \"sliding_window_pattern\": 4}")

# Words that do not occur in files are explained.
file(WRITE "${SCRATCH}/first.json" "{\"model_type\": \"qwen2\", \"head_dim\": 128}")
differs("axes of positions +1  .  0 [^\n]*\n.*Meaning of words:\n  axes of positions +axis of the position that"
        "{\"model_type\": \"qwen2_vl\", \"head_dim\": 128, \"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [16, 24, 24]}}")

# Attention of layers: groups of layers in the report, and each member in the comparison.
set(gemma "\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 12, \"num_attention_heads\": 8, \"hidden_size\": 2048")
file(WRITE "${SCRATCH}/gemma.json" "{${gemma}, \"sliding_window\": 512}")
expect(0 "layers +0 1 2 3 4 6 7 8 9 10: Sliding, heads 8, kv_heads 4, head_dim 256, value_dim 256, window the last 512, sinks no, qk_norm of heads .weights lack 1."
       "${SCRATCH}/gemma.json")
file(COPY_FILE "${SCRATCH}/gemma.json" "${SCRATCH}/first.json")
differs("attention +Sliding, [^|]*window the last 512[^|]*  .  Sliding, [^|]*window the last 1024[^|]* from entry 0 on"
        "{${gemma}, \"sliding_window\": 1024}")
differs("kv_heads 4[^|]*  .  Sliding[^|]*kv_heads 2" "{${gemma}, \"sliding_window\": 512, \"num_key_value_heads\": 2}")
differs("attention +Sliding[^|]*  .  [^|]*window 256 on both sides"
        "{${gemma}, \"sliding_window\": 512, \"use_bidirectional_attention\": true}")
string(REPLACE "12" "18" other "${gemma}")
differs("layer_count +12  .  18" "{${other}, \"sliding_window\": 512}")

# Sizes of the model, and the norm of queries and keys.
set(qwen "\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"num_attention_heads\": 16, \"hidden_size\": 1024")
file(WRITE "${SCRATCH}/first.json" "{${qwen}, \"vocab_size\": 151936, \"intermediate_size\": 3072, \"rms_norm_eps\": 1e-06, \"tie_word_embeddings\": true}")
expect(0 "hidden_size +1024\n +vocabulary_size +151936\n +intermediate_sizes +3072\n +norm_epsilon +1e-06\n +tied_embeddings +yes\n"
       "${SCRATCH}/first.json")
expect(0 "all layers +Global, [^\n]*qk_norm of heads\n" "${SCRATCH}/first.json")
differs("intermediate_sizes +3072  .  1024 from entry 0 on" "{${qwen}, \"vocab_size\": 151936, \"intermediate_size\": 1024, \"rms_norm_eps\": 1e-06, \"tie_word_embeddings\": true}")
differs("vocabulary_size +151936  .  none.*norm_epsilon +1e-06  .  1e-05.*tied_embeddings +yes  .  no"
        "{${qwen}, \"intermediate_size\": 3072, \"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": false}")

# Vision tower beside the text model.
set(text "\"model_type\": \"some\", \"text_config\": {\"model_type\": \"llama\", \"head_dim\": 64}")
file(WRITE "${SCRATCH}/first.json" "{${text}, \"vision_config\": {\"model_type\": \"qwen2_5_vl\", \"hidden_size\": 1280}}")
expect(0 "vision tower qwen2_5_vl\n.*attention +Global, heads 16[^\n]*\n +patch_size +14\n +merge +2\n +rotary +Qwen2Vl, base 10000\n +window +8\n +layers_without_window +7 15 23 31"
       "${SCRATCH}/first.json")
differs("vision tower\n +window +8  .  16"
        "{${text}, \"vision_config\": {\"model_type\": \"qwen2_5_vl\", \"hidden_size\": 1280, \"window_size\": 224}}")
differs("vision tower +qwen2_5_vl  .  none" "{${text}}")
file(WRITE "${SCRATCH}/first.json" "{${text}, \"vision_config\": {\"model_type\": \"clip_vision_model\"}}")
differs("learned positions +7 by 7 patches, a class token before them  .  14 by 14 patches, a class token"
        "{${text}, \"vision_config\": {\"model_type\": \"clip_vision_model\", \"patch_size\": 16}}")
file(WRITE "${SCRATCH}/first.json" "{${text}, \"vision_config\": {\"model_type\": \"mllama_vision_model\"}}")
expect(0 "vision tower mllama_vision_model\n +not read +it has learned positions of patches and of tiles" "${SCRATCH}/first.json")

# A failure to write must not be a success.
if(EXISTS /dev/full)
  execute_process(COMMAND "${PROGRAM}" --presets OUTPUT_FILE /dev/full RESULT_VARIABLE result ERROR_VARIABLE errors)
  if(NOT result STREQUAL 1 OR NOT errors MATCHES "cannot write to standard output")
    message(SEND_ERROR "posenc_inspect --presets > /dev/full: status ${result}, not 1, or other errors:\n${errors}")
  endif()
endif()

# A picture has its model's name in a title, and its key below the plot, away from the lines.
set(pictures "${SCRATCH}/pictures")
expect(0 "llama-3.1-8b-wavelengths" "${llama}" --picture "${pictures}")
file(READ "${pictures}/llama-3.1-8b-wavelengths.gp" script)
if(NOT script MATCHES "set title \"Wavelengths of RoPE's pairs: llama\"" OR NOT script MATCHES "set key below")
  message(SEND_ERROR "The picture has no title, or its key is in the plot:\n${script}")
endif()
