// SPDX-License-Identifier: MIT
#pragma once

#include "report.hpp"
#include "sample.hpp"

namespace tour {

/// What every section is given.
struct Tour {
  const Sample& sample;
  Report& report;
};

// Each is one section; main.cpp gives their order and titles.

void show_build_and_shapes(Tour& tour);
void show_where_position_enters(Tour& tour);
void show_parameters(Tour& tour);
void show_comparison(Tour& tour);

void show_integer_and_binary(Tour& tour);
void show_sinusoidal(Tour& tour);
void show_sinusoidal_2d(Tour& tour);
void show_path_of_positions(Tour& tour);
void show_learned(Tour& tour);

void show_rope_tables(Tour& tour);
void show_rope_spectrum(Tour& tour);
void show_rope_curves(Tour& tour);
void show_rotated_vector(Tour& tour);
void show_rotation_arrows(Tour& tour);
void show_relative_scores(Tour& tour);
void show_rope_on_grid(Tour& tour);
void show_mrope(Tour& tour);
void show_xpos(Tour& tour);

void show_scaled_wavelengths(Tour& tour);
void show_angles_past_training(Tour& tour);
void show_length_extrapolation(Tour& tour);
void show_study(Tour& tour);

void show_alibi_bias(Tour& tour);
void show_alibi_slopes(Tour& tour);
void show_learned_biases(Tour& tour);

void show_attention_patterns(Tour& tour);
void show_permutation(Tour& tour);
void show_causal_leakage(Tour& tour);
void show_cached_decoding(Tour& tour);

void show_position_similarity(Tour& tour);
void show_properties(Tour& tour);
void show_accuracy(Tour& tour);

}  // namespace tour
