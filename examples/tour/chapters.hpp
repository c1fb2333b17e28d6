// SPDX-License-Identifier: MIT
#pragma once

#include "report.hpp"
#include "sample.hpp"

namespace tour {

/// Arguments of every section.
struct Tour {
  const Sample& sample;
  Report& report;
};

// Sections, one per function; main.cpp has their order and titles. The contents of a file are in a
// namespace of its name, so that several files can be compiled as one unit.

namespace overview {
void show(Tour& tour);
}
namespace places {
void show(Tour& tour);
}
namespace parameters {
void show(Tour& tour);
}
namespace comparison {
void show(Tour& tour);
}
namespace simple_encodings {
void show(Tour& tour);
}
namespace sinusoidal {
void show(Tour& tour);
void show_on_grid(Tour& tour);
void show_path_of_positions(Tour& tour);
}  // namespace sinusoidal
namespace learned {
void show(Tour& tour);
}
namespace rope {
void show_tables(Tour& tour);
void show_spectrum(Tour& tour);
void show_curves(Tour& tour);
void show_rotated_vector(Tour& tour);
void show_rotation_arrows(Tour& tour);
}  // namespace rope
namespace relative_scores {
void show(Tour& tour);
}
namespace grid_rope {
void show(Tour& tour);
void show_mrope(Tour& tour);
}  // namespace grid_rope
namespace xpos {
void show(Tour& tour);
}
namespace scaling {
void show_wavelengths(Tour& tour);
void show_angles_past_training(Tour& tour);
}  // namespace scaling
namespace extrapolation {
void show(Tour& tour);
}
namespace study {
void show(Tour& tour);
}
namespace alibi {
void show_bias(Tour& tour);
void show_slopes(Tour& tour);
}  // namespace alibi
namespace learned_biases {
void show(Tour& tour);
}
namespace patterns {
void show(Tour& tour);
}
namespace permutation {
void show(Tour& tour);
}
namespace leakage {
void show(Tour& tour);
}
namespace cached_decoding {
void show(Tour& tour);
}
namespace similarity {
void show(Tour& tour);
}
namespace properties {
void show(Tour& tour);
}
namespace accuracy {
void show(Tour& tour);
}

}  // namespace tour
