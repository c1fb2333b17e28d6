#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: ollama v0.17.4, its Go package convert, on configurations that transformers 5.24.0 writes.
# Guess:   the converter reads rope_parameters, which is how a config.json of this release stores base and scaling, or
#          rejects the file.
# Seen:    it reads rope_theta and rope_scaling alone. The GGUF keys say a base of 0 for Qwen2, Phi-3 and gpt-oss, no base
#          for Llama, and no scaling, with no error.
# Matters: base and scaling are lost before any engine reads the file. posenc's `read_hf_config` reads both forms.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 numpy==2.4.6
python_program 2>/dev/null <<'PY'
import transformers
from tokenizers import Tokenizer, models

llama3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192, rope_theta=5e5)
yarn = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768, rope_theta=1e6)
for name, options in (("Llama", dict(rope_parameters=llama3)), ("Qwen2", dict(rope_parameters=yarn)), ("Phi3", {}), ("GptOss", {})):
    config = getattr(transformers, name + "Config")(architectures=[name + "ForCausalLM"], num_hidden_layers=1, **options)
    config.save_pretrained(name)
    Tokenizer(models.BPE({"a": 0}, [])).save(name + "/tokenizer.json")
    print(name, config.rope_parameters["rope_type"], "base", config.rope_parameters["rope_theta"])
PY
cat "$work/seen"

cat >"$work/main.go" <<'GO'
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ollama/ollama/convert"
)

func main() {
	for _, name := range os.Args[1:] {
		model, tokenizer, err := convert.LoadModelMetadata(os.DirFS(name))
		if err != nil {
			panic(err)
		}
		lines := []string{}
		for key, value := range model.(convert.ModelConverter).KV(tokenizer) {
			if strings.Contains(key, "rope.freq") || strings.Contains(key, "rope.scaling") {
				lines = append(lines, fmt.Sprint(" ", key, "=", value))
			}
		}
		slices.Sort(lines)
		fmt.Println(name + ":" + strings.Join(lines, ""))
	}
}
GO
export GOMODCACHE="${GOMODCACHE:-$work/go}" GOFLAGS="-mod=mod -modcacherw"
(cd "$work" && go mod init finding && go get github.com/ollama/ollama@v0.17.4 && go build -o main .) 2>/dev/null
(cd "$work" && go list -m github.com/ollama/ollama && ./main Llama Qwen2 Phi3 GptOss) >"$work/seen"
expect <<'OUT'
github.com/ollama/ollama v0.17.4
Llama:
Qwen2: qwen2.rope.freq_base=0
Phi3: phi3.rope.freq_base=0 phi3.rope.scaling.original_context_length=4096
GptOss: gptoss.rope.freq_base=0 gptoss.rope.scaling.factor=0 gptoss.rope.scaling.original_context_length=0
OUT
