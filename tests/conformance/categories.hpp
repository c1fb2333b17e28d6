// SPDX-License-Identifier: MIT
#pragma once

#include "conformance/case.hpp"

namespace conformance {

// Handlers, one per category's folder. Each runs one case with the library and compares.
void run_alibi(Case& c);
void run_hf_apply(Case& c);
void run_hf_rope(Case& c);
void run_lucidrains(Case& c);
void run_onnx(Case& c);
void run_torch(Case& c);
void run_truth(Case& c);
void run_yarn_repo(Case& c);

// Handlers of torch, by the feature's first word.
void run_torch_attention(Case& c);
void run_torch_interpolate(Case& c);
void run_torch_learned(Case& c);
void run_torch_multi_head(Case& c);
void run_torch_rotary(Case& c);
void run_torch_sinusoidal(Case& c);

}  // namespace conformance
