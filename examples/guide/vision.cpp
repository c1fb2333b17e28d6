// SPDX-License-Identifier: MIT
// The lines of vision.md: positions on several axes for images, prompts with images, and videos.
#include <posenc/additive/sinusoidal_2d.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/interop/diffusion_axes.hpp>
#include <posenc/interop/diffusion_positions.hpp>
#include <posenc/interop/dinov3_grid.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/axial.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/grid_positions.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

using posenc::Index;
using posenc::Positions;
using posenc::Rope;

namespace {

int failures = 0;

void expect(bool holds, const char* claim) {
  if (holds) return;
  std::cout << "wrong: " << claim << '\n';
  ++failures;
}

/// Tensor x(s, d) of one sequence and one head, in double.
class Tokens {
 public:
  Tokens(Index count, Index dim, std::uint32_t state = 0)
      : count_(count), dim_(dim), numbers_(static_cast<std::size_t>(count * dim)) {
    for (double& x : numbers_) {
      if (state == 0) break;
      state = state * 1664525 + 1013904223;
      x = static_cast<double>(state) / 2147483648.0 - 1;
    }
  }
  posenc::HeadsView<double> heads() {
    return {.data = numbers_.data(), .batch = 1, .seq = count_, .heads = 1, .dim = dim_};
  }
  posenc::EmbeddingsView<double> embeddings() {
    return {.data = numbers_.data(), .batch = 1, .seq = count_, .dim = dim_};
  }
  const double* token(Index s) const { return numbers_.data() + s * dim_; }
  bool operator==(const Tokens& other) const { return numbers_ == other.numbers_; }

 private:
  Index count_, dim_;
  std::vector<double> numbers_;
};

/// Returns the score of one query and one key, which stand at tokens s and t.
template <class Rotary>
double score(const Rotary& rotary, Index dim, const Positions& positions, Index s, Index t) {
  Tokens q(positions.count(), dim), k = q;
  for (Index d = 0; d < dim; ++d) {
    q.heads().row(0, s, 0)[d] = std::cos(static_cast<double>(d));
    k.heads().row(0, t, 0)[d] = std::sin(static_cast<double>(3 * d));
  }
  rotary.rotate_all({q.heads(), k.heads()}, positions);
  double sum = 0;
  for (Index d = 0; d < dim; ++d) sum += q.token(s)[d] * k.token(t)[d];
  return sum;
}

bool close(double a, double b) { return std::abs(a - b) < 1e-12; }

std::array<double, 3> at(const Positions& positions, Index token) {
  return {positions.at(0, token, 0), positions.at(0, token, 1), positions.at(0, token, 2)};
}

void sinusoidal_grid() {
  Tokens x(4 * 6, 64);  // 4 rows of 6 patches
  const posenc::Sinusoidal2d encoding({.model_dim = 64,
                                       .axis_order = posenc::GridAxisOrder::ColumnFirst,
                                       .layout = posenc::SinusoidalLayout::Concatenated});
  encoding.add_to(x.embeddings(), Positions::grid(4, 6));

  const double *a = x.token(0 * 6 + 3), *b = x.token(2 * 6 + 3);  // one column, two rows
  expect(std::equal(a, a + 32, b), "the first half of the channels encodes the column");
  expect(!std::equal(a + 32, a + 64, b + 32), "the second half encodes the row");
}

void axial_rope() {
  // 32 channels for the row and 32 for the column, each with frequencies of its own.
  const Rope<posenc::Interleaved> rope(posenc::axial({32, 32}, 100));
  const auto grid = Positions::grid(8, 8);

  // Cells (1, 1) and (4, 3), and the same step elsewhere.
  expect(close(score(rope, 64, grid, 1 * 8 + 1, 4 * 8 + 3),
               score(rope, 64, grid, 3 * 8 + 4, 6 * 8 + 6)),
         "scores depend on differences of rows and of columns");
  expect(!close(score(rope, 64, grid, 1 * 8 + 1, 4 * 8 + 3),
                score(rope, 64, grid, 1 * 8 + 1, 3 * 8 + 4)),
         "rows and columns are not exchanged");
}

void order_of_axes() {
  // RoPE-ViT's first axis is the column (x). Positions::grid has the row first.
  const Rope<posenc::Interleaved> rope_vit(posenc::rope_vit_axial({.head_dim = 64, .base = 100}));
  Tokens q(14 * 14, 64, 1);
  rope_vit.rotate(q.heads(), posenc::xy_grid(14, 14));
  std::string message;
  try {
    rope_vit.rotate(q.heads(), Positions::grid(14, 14));
  } catch (const posenc::PositionError& error) {
    message = error.what();
  }

  std::cout << message << '\n';
  expect(message.find("xy_grid()") != std::string::npos, "the message names the right function");
}

void prompt_with_image() {
  // 4 tokens of text, an image of 8 x 12 patches that are merged 2 x 2, and 5 tokens of text.
  const auto prompt =
      posenc::prompt_positions({{.text = 4}, {.rows = 8, .cols = 12, .merge = 2}, {.text = 5}});
  const Index image = 4 * 6, tokens = 4 + image + 5;

  const posenc::Unscaled rule{.rotary_dim = 128, .base = 1000000};
  const Rope<posenc::HalfRotate> qwen2_vl(rule, 0, posenc::mrope_chunked({16, 24, 24}));
  const Rope<posenc::HalfRotate> qwen3_vl(
      rule, 0, posenc::mrope_interleaved({24, 20, 20}, posenc::MropeTail::Time));
  Tokens q(tokens, 128, 1);
  qwen2_vl.rotate(q.heads(), prompt.positions);

  // The first token that is decoded after the prompt.
  const auto next = prompt.decode(tokens, 1);

  // Two prompts of different lengths, one after the other in a packed batch.
  const auto other = posenc::prompt_positions({{.rows = 4, .cols = 4, .merge = 2}, {.text = 3}});
  const auto packed = Positions::concatenate({prompt.positions, other.positions});
  const std::vector<Index> cu_seqlens{0, tokens, packed.count()};
  Tokens k(packed.count(), 128, 3), v = k, packed_q = k, out = k;
  qwen2_vl.rotate_all({packed_q.heads(), k.heads()}, packed);
  posenc::attention(
      packed_q.heads(), k.heads(), v.heads(), out.heads(),
      {.causal = posenc::Causal::TopLeft, .cu_seqlens_q = cu_seqlens, .cu_seqlens_k = cu_seqlens});

  using Axes = std::array<double, 3>;  // time, row, column
  expect(prompt.positions.count() == tokens, "four patches are one token");
  expect(at(prompt.positions, 3) == Axes{3, 3, 3}, "text is equal on all axes");
  expect(at(prompt.positions, 4) == Axes{4, 4, 4}, "an image starts at the next position");
  expect(at(prompt.positions, 4 + 6 + 2) == Axes{4, 5, 6}, "row 1, column 2 of the image");
  expect(at(prompt.positions, 4 + image) == Axes{10, 10, 10},
         "text continues after the longest side");
  expect(at(next, 0) == Axes{15, 15, 15}, "decoding continues after the text");

  expect(at(packed, tokens + 1) == at(other.positions, 1), "the second prompt starts at 0");
  Tokens alone(other.positions.count(), 128), alone_q = alone, alone_out = alone;
  const Tokens original(packed.count(), 128, 3);
  std::copy_n(original.token(tokens), other.positions.count() * 128, alone.heads().data);
  std::copy_n(original.token(tokens), other.positions.count() * 128, alone_q.heads().data);
  Tokens alone_v = alone;
  qwen2_vl.rotate_all({alone_q.heads(), alone.heads()}, other.positions);
  posenc::attention(alone_q.heads(), alone.heads(), alone_v.heads(), alone_out.heads(),
                    {.causal = posenc::Causal::TopLeft});
  expect(std::equal(alone_out.token(0), alone_out.token(0) + other.positions.count() * 128,
                    out.token(tokens)),
         "a packed prompt has the bits of a separate call");

  // Without an image M-RoPE is plain RoPE.
  Tokens text(20, 128, 2), plain = text;
  qwen3_vl.rotate(text.heads(), posenc::prompt_positions({{.text = 20}}).positions);
  Rope<posenc::HalfRotate>(rule).rotate(plain.heads(), Positions::range(0, 20));
  expect(text == plain, "M-RoPE of text has the bits of RoPE");
}

void video() {
  const auto positions = posenc::video_grid({.frames = 3, .rows = 2, .cols = 4});
  const Rope<posenc::Interleaved> wan(posenc::wan(128));
  Tokens q(3 * 2 * 4, 128, 1);
  wan.rotate(q.heads(), positions);

  // In a prompt: 3 frames, 2 positions apart, of 4 x 4 patches that are merged 2 x 2.
  const auto prompt = posenc::prompt_positions(
      {{.text = 1}, {.rows = 4, .cols = 4, .frames = 3, .merge = 2, .frame_step = 2}});

  // 4 frames, 6.5 positions apart: their times are 4, 10.5, 17 and 23.5, and text goes on at 24.5.
  const auto omni = posenc::prompt_positions(
      {{.text = 4},
       {.rows = 4,
        .cols = 4,
        .frames = 4,
        .merge = 2,
        .frame_step = 6.5,
        .frame_times = posenc::FrameTimes::Unrounded},  // Qwen3-Omni; 4, 10, 17, 23 if RoundedDown
       {.text = 2}});

  using Axes = std::array<double, 3>;
  expect(at(omni.positions, 8) == Axes{10.5, 4, 4}, "times are not rounded");
  expect(at(omni.positions, 20) == Axes{24.5, 24.5, 24.5}, "text goes on at the next position");
  expect(omni.rope_deltas[0] == 4.5, "so does decoding");
  expect(at(positions, 1) == Axes{0, 0, 1}, "columns change first");
  expect(at(positions, 4) == Axes{0, 1, 0}, "then rows");
  expect(at(positions, 8) == Axes{1, 0, 0}, "and frames last");
  expect(at(prompt.positions, 1 + 2 * 4 + 3) == Axes{1 + 4, 1 + 1, 1 + 1},
         "frames of a prompt are frame_step apart");
}

void dinov3() {
  const Rope<posenc::HalfRotate> rope(posenc::dinov3({.head_dim = 64, .base = 100}));
  // A class token and 4 registers before 14 x 16 patches.
  const auto positions = posenc::dinov3_grid({.rows = 14, .cols = 16, .prefix_tokens = 5},
                                             posenc::PatchNormalization::Separate);
  Tokens q(5 + 14 * 16, 64, 1);
  const Tokens before = q;
  rope.rotate(q.heads(), positions);

  expect(std::equal(q.token(0), q.token(5), before.token(0)), "the prefix is not rotated");
  const double pi = 3.141592653589793;
  expect(close(positions.at(0, 5, 0), 2 * pi * (1.0 / 14 - 1)), "the first row is near -1");
  expect(close(positions.at(0, 5 + 15, 1), 2 * pi * (1 - 1.0 / 16)), "the last column is near 1");
}

}  // namespace

int main() {
  sinusoidal_grid();
  axial_rope();
  order_of_axes();
  prompt_with_image();
  video();
  dinov3();
  return failures;
}
